from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.memory.embed.lexical import Lexical
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.library import Library
from runtime.memory.learning.merging import LEAST, STORED, Merging, Promotion, aged
from runtime.memory.learning.patterns import Pattern
from runtime.memory.learning.trajectories import Act
from runtime.memory.store import Shelf, open_shelf

SYSTEM = Path(__file__).parents[4] / "system"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "state" / "memory" / "patterns", systems=[SYSTEM], fsync=False)


@pytest.fixture
def merging(library: Library) -> Merging:
    return Merging(library, Lexical())


def pattern(name: str, guidance: str = "", **more: object) -> Pattern:
    return Pattern(name, guidance or f"Do {name}.", **more)  # type: ignore[arg-type]


def names(library: Library) -> list[str]:
    return [each.name for each in library.all()]


# ---- the same --------------------------------------------------------------------------------------------


def test_the_same_rule_is_one_pattern_of_both_types_and_surer(merging: Merging, library: Library) -> None:
    rule = {"rule": "before-same edit read", "samples": 12, "confidence": 0.7, "success_rate": 0.9}
    merging.add(pattern("read-first", types=("edit",), sources=("runs/a/a.md",), **rule))
    merging.add(pattern("look-first", types=("code",), sources=("runs/b/b.md",), **rule))
    (one,) = library.all()
    assert (one.name, one.types, one.samples) == ("read-first", ("edit", "code"), 24)
    assert 0.7 < one.confidence < 0.99
    assert set(one.sources) == {"runs/a/a.md", "runs/b/b.md"}


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("Read the file before you edit it.", "Before you edit the file, read it.", True),
        ("Use `read` before `edit`.", "Use `read` before `write`.", False),
        ("Plan at most 3 steps.", "Plan at most 8 steps.", False),
        ("Always run the tests after a change.", "Never run the tests after a change.", False),
        ("Read the file before you edit it.", "Answer in one line.", False),
    ],
)
def test_alike_is_the_same_only_where_they_agree(merging: Merging, one: str, other: str, same: bool) -> None:
    assert merging.same(pattern("a", one), pattern("b", other)) is same


def test_what_a_person_switched_off_is_not_learned_again(merging: Merging, library: Library) -> None:
    merging.add(pattern("read-first", rule="before-same edit read"))
    library.update("read-first", person=True, status="off")
    assert merging.add(pattern("look-first", rule="before-same edit read")) is None
    assert names(library) == ["read-first"]


def test_what_contradicts_a_persons_word_is_not_learned(merging: Merging, library: Library) -> None:
    library.add(pattern("ours", "Never run `bash` after an edit.", origin="person"))
    assert merging.add(pattern("theirs", "Run `bash` after an edit.", confidence=0.99)) is None


# ---- compressing -----------------------------------------------------------------------------------------


def test_the_stored_tokens_of_a_type_are_bounded_and_the_least_sure_go(
    merging: Merging, library: Library
) -> None:
    for number in range(60):
        words = " ".join(f"w{number}x{n}" for n in range(20))
        merging.add(pattern(f"p{number}", words, types=("edit",), confidence=number / 60))
    there = library.all()
    assert sum(each.tokens for each in there) <= STORED
    assert 3 < len(there) < 60
    assert {each.name for each in there} == {f"p{number}" for number in range(60 - len(there), 60)}


def test_pruning_leaves_three_of_a_type_and_all_that_a_person_wrote(
    merging: Merging, library: Library
) -> None:
    long = " ".join(f"word{n}" for n in range(90))
    for number in range(5):
        library.add(pattern(f"p{number}", f"{long} {number}", types=("edit",), confidence=0.1 * number))
    for number in range(12):
        library.add(pattern(f"mine{number}", f"{long} mine {number}", types=("edit",), origin="person"))
    merging.prune("edit", NOW)
    assert sum(each.origin == "person" for each in library.all()) == 12
    for number in range(12):
        library.delete(f"mine{number}")
    for each in library.all():
        library.update(each.name, confidence=0.01)
    merging.prune("edit", NOW)
    assert len(library.all()) <= LEAST


def test_confidence_fades_with_age_and_a_use_renews_it() -> None:
    old = pattern("a", confidence=0.8, created="2026-08-23T00:00:00.000Z")
    assert aged(old, NOW) == pytest.approx(0.4)
    used = pattern("a", confidence=0.8, created=old.created, last_used="2026-11-21T00:00:00.000Z")
    assert aged(used, NOW) == pytest.approx(0.8)


def test_what_is_old_and_unsure_goes_but_for_three(merging: Merging, library: Library) -> None:
    at = (NOW - timedelta(days=400)).isoformat()
    for number in range(6):
        library.add(pattern(f"p{number}", f"Advice number{number}.", types=("edit",), created=at))
    did, counts = merging.compress(NOW)
    assert (len(library.all()), counts["pruned"]) == (3, 3)
    assert all("confidence 0.0" in line for line in did)


def test_rules_that_differ_in_their_tool_alone_become_one(merging: Merging, library: Library) -> None:
    for tool in ("edit", "replace", "patch"):
        library.add(
            pattern(
                f"read-before-{tool}",
                rule=f"before-same {tool} read",
                types=("edit",),
                samples=10,
                confidence=0.8,
            )
        )
    did, counts = merging.compress(NOW)
    (one,) = library.all()
    assert counts["generalized"] == 1 and "combined into" in did[0]
    assert one.guidance == "Before `edit` or `patch` or `replace`, use `read` on the same file."
    assert one.rule == "before-same edit,patch,replace read"


def test_a_rule_of_three_types_is_for_all_tasks(merging: Merging, library: Library) -> None:
    library.add(pattern("a", types=("edit", "code", "write"), rule="uses read"))
    merging.compress(NOW)
    assert library.all()[0].types == ("general",)


def test_compressing_twice_changes_nothing_more(merging: Merging, library: Library) -> None:
    for tool in ("edit", "replace", "patch"):
        library.add(pattern(f"p-{tool}", rule=f"before-same {tool} read", types=("edit",)))
    merging.compress(NOW)
    before = [path.read_bytes() for path in sorted(library.folder.glob("*.md"))]
    assert merging.compress(NOW)[0] == []
    assert [path.read_bytes() for path in sorted(library.folder.glob("*.md"))] == before


# ---- promotion -------------------------------------------------------------------------------------------


def used(shelf: Shelf, agent: str, count: int, good: int) -> None:
    acts = (Act(tool="read", paths=(0,)), Act(tool="edit", paths=(0,)))
    for number in range(count):
        outcome = "tests_passed" if number < good else "tests_failed"
        one = StoredAttempt(id=f"{agent}{number}/1", agent=agent, type="edit", acts=acts)
        shelf.put(one.judged(outcome, None))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return open_shelf("memory", tmp_path)


OWN = {"rule": "before-same edit read", "types": ("edit",), "scope": "agent", "agent": "writer"}


def test_what_two_agents_use_with_success_is_the_spaces(
    library: Library, shelf: Shelf, tmp_path: Path
) -> None:
    library.add(pattern("read-first", **OWN))
    used(shelf, "writer", 5, 5)
    promotion = Promotion(shelf, library, None, tmp_path / "state")
    assert promotion.promote() == []
    used(shelf, "reviewer", 5, 5)
    assert promotion.promote() == ["read-first promoted to the space: used successfully by reviewer, writer"]
    assert library.all()[0].scope == "space"
    assert [each.name for each in Library(library.folder, agent="newcomer").patterns()] == ["read-first"]


def test_what_does_not_go_well_in_more_than_four_of_five_is_not(
    library: Library, shelf: Shelf, tmp_path: Path
) -> None:
    library.add(pattern("read-first", **OWN))
    used(shelf, "writer", 5, 4)
    used(shelf, "reviewer", 5, 4)
    assert Promotion(shelf, library, None, tmp_path / "state").promote() == []


def test_agents_that_learned_the_same_have_one_pattern_then(
    library: Library, shelf: Shelf, tmp_path: Path
) -> None:
    library.add(pattern("read-first", **OWN, sources=("runs/a/a.md",)))
    library.add(pattern("look-first", **{**OWN, "agent": "reviewer"}, sources=("runs/b/b.md",)))
    used(shelf, "writer", 4, 4)
    used(shelf, "reviewer", 4, 4)
    assert len(Promotion(shelf, library, None, tmp_path / "state").promote()) == 1
    (one,) = library.all()
    assert one.scope == "space" and len(one.sources) == 2 and one.agents == ("reviewer", "writer")


def test_what_three_spaces_have_is_for_all(shelf: Shelf, tmp_path: Path) -> None:
    state = tmp_path / "state"
    main = Library(state / "memory" / "patterns", fsync=False)
    spaces = [
        Library(state / "spaces" / name / "memory" / "patterns", state=state) for name in ("a", "b", "c")
    ]
    fields = {"rule": "uses read", "scope": "space", "types": ("edit",), "success_rate": 0.9, "samples": 10}
    for space in spaces[:2]:
        space.add(pattern("use-read", **fields))
    promotion = Promotion(shelf, spaces[0], None, state)
    assert promotion.promote() == []
    spaces[2].add(pattern("use-read", **fields))
    assert promotion.promote() == ["use-read promoted to all spaces: found in a, b, c"]
    (one,) = main.all()
    assert (one.scope, one.samples) == ("all", 10) and spaces[0].all() == []
    other = Library(state / "spaces" / "d" / "memory" / "patterns", above=[main.folder], state=state)
    assert [each.name for each in other.patterns()] == ["use-read"]
