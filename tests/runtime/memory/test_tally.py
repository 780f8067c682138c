"""The counts of experiences are those of the store, whatever is added, changed or removed."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.context.awareness import profiles, totals
from runtime.memory.episodes.experience import Experience
from runtime.memory.episodes.tally import Tally
from runtime.memory.store import open_shelf

EXPERIENCES = st.builds(
    Experience,
    id=st.sampled_from("abc"),
    text=st.just("count the lines"),
    type=st.sampled_from(["code", "data"]),
    agent=st.sampled_from(["ada", "bob"]),
    success=st.sampled_from([True, False, None]),
    seconds=st.integers(0, 9).map(float),
)


@given(changes=st.lists(EXPERIENCES | st.sampled_from("abc"), max_size=12), looks=st.sets(st.integers(0, 11)))
def test_the_counts_follow_the_store(changes: list[Experience | str], looks: set[int]) -> None:
    with closing(open_shelf("memory", Path())) as shelf:
        for n, change in enumerate(changes):
            if isinstance(change, str):
                shelf.delete(Experience, change)
            else:
                shelf.put(change)
            if n in looks:
                Tally.of(shelf)
        tally, stored = Tally.of(shelf), list(shelf.scan(Experience))
        assert len(tally) == len(stored)
        assert +tally.agents == Counter(each.agent for each in stored)
        assert +tally.types == Counter(each.type for each in stored)
        for type in ("code", "data"):
            assert tally.records(type) == totals(profiles(stored), type)
