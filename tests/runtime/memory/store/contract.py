"""The contract of every store; each store's test file runs all of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lanes import NIGHT, every, examples, pause
from shelves import Note, Other, note, unit

from kernel.errors import UsageError
from runtime.memory.store import Between, Hit, Record, Shelf, open_shelf, pack

ODD = [
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff y",
    "😀",
    "../../etc/passwd",
    "con",
    "A",
    "a",
    ".",
    "ä",
    "a\u0308",
    "x" * 400,
]


class Contract:
    """Tests of a store that forgets when its process ends."""

    STORE = ""

    def store(self, folder: Path) -> str:
        """The setting for a store of this folder alone."""
        return self.STORE

    @pytest.fixture
    def shelf(self, tmp_path: Path) -> Iterator[Shelf]:
        opened = self.open(tmp_path / "brain", fsync=False)
        yield opened
        opened.close()

    def open(self, folder: Path, *, fsync: bool = True) -> Shelf:
        return open_shelf(self.store(folder), folder, fsync=fsync)

    # ---- news --------------------------------------------------------------------------------------------

    def test_what_was_put_and_deleted_since_is_news(self, shelf: Shelf) -> None:
        since, changes = shelf.news()
        assert changes is None  # at first everything counts as changed
        shelf.put(note("a", 1, 2), note("b", 1, 2))
        shelf.delete(Note, "a", "never there")
        since, changes = shelf.news(since)
        assert changes is not None and set(changes) == {("note", "a"), ("note", "b")}
        assert shelf.news(since) == (since, [])

    def test_what_was_not_kept_is_no_news(self, shelf: Shelf) -> None:
        shelf.put(note("a", 1, 2))
        since, _ = shelf.news()
        with pytest.raises(RuntimeError), shelf.transaction():
            shelf.put(note("b", 1, 2))
            raise RuntimeError
        since, changes = shelf.news(since)
        assert changes == []
        with shelf.transaction():
            shelf.put(note("c", 1, 2))
            assert shelf.news(since) == (since, [])
        assert shelf.news(since)[1] == [("note", "c")]

    # ---- one record --------------------------------------------------------------------------------------

    def test_a_record_comes_back_as_it_was(self, shelf: Shelf) -> None:
        whole = note(
            "a", 1, 2, text="count the lines", uses=3, weight=0.1, sure=True, more={"x": [1, None, "é"]}
        )
        shelf.put(whole)
        assert shelf.get(Note, "a") == whole
        assert np.allclose(shelf.get(Note, "a").vector("lexical-1"), unit(1, 2))  # type: ignore[union-attr]
        assert shelf.get(Note, "b") is None
        assert shelf.get(Other, "a") is None

    def test_numbers_that_are_none_come_back(self, shelf: Shelf) -> None:
        shelf.put(note("n", weight=float("nan")), note("i", weight=float("-inf")), note("s", weight=5e-324))
        assert str(shelf.get(Note, "n").weight) == "nan"  # type: ignore[union-attr]
        assert shelf.get(Note, "i").weight == float("-inf")  # type: ignore[union-attr]
        assert shelf.get(Note, "s").weight == 5e-324  # type: ignore[union-attr]
        shelf.put(note("big", more={"n": 2**70, "f": 0.1 + 0.2}))
        assert shelf.get(Note, "big").more == {"n": 2**70, "f": 0.1 + 0.2}  # type: ignore[union-attr]

    @pytest.mark.parametrize("odd", ODD, ids=[ascii(each)[:20] for each in ODD])
    def test_any_text_is_kept_in_any_place(self, shelf: Shelf, odd: str) -> None:
        whole = note(odd, 1, text=f"before {odd} behind", stage=odd, more={odd: odd})
        shelf.put(whole, note("other", text="nothing"))
        assert shelf.get(Note, odd) == whole
        assert list(shelf.scan(Note, {"stage": odd})) == [whole]
        assert [hit.id for hit in shelf.search(Note, "behind")] == [odd]
        assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1))] == [odd]
        assert shelf.check() == []
        assert shelf.delete(Note, odd) == 1
        assert [each.id for each in shelf.scan(Note)] == ["other"]

    def test_ids_that_look_alike_are_different_records(self, shelf: Shelf) -> None:
        shelf.put(*(note(odd, stage=str(number)) for number, odd in enumerate(ODD)))
        assert [shelf.get(Note, odd).stage for odd in ODD] == [str(n) for n in range(len(ODD))]  # type: ignore[union-attr]
        assert [each.id for each in shelf.scan(Note)] == sorted(ODD)

    def test_megabytes_in_one_record(self, shelf: Shelf) -> None:
        big = note("big", text="word " * 20, more={"x": "0123456789" * (1_000_000 if NIGHT else 100_000)})
        shelf.put(big)
        assert shelf.get(Note, "big") == big

    def test_putting_again_replaces_everything(self, shelf: Shelf) -> None:
        shelf.put(note("a", 1, 0, text="count lines", by="minilm"))
        shelf.put(note("a", 0, 1, text="sort words", by="lexical-1"))
        assert shelf.count(Note) == 1
        assert shelf.search(Note, "count") == []
        assert [hit.id for hit in shelf.search(Note, "sort")] == ["a"]
        assert shelf.nearest(Note, "minilm", unit(1, 0)) == []
        assert shelf.nearest(Note, "lexical-1", unit(0, 1)) == [Hit("a", 1.0)]

    def test_what_is_deleted_is_found_by_nothing(self, shelf: Shelf) -> None:
        shelf.put(note("a", 1, 2, text="count"), note("b", 2, 1, text="count"))
        assert len(shelf.nearest(Note, "lexical-1", unit(1, 1))) == 2
        assert shelf.delete(Note, "a", "a", "z") == 1
        assert shelf.delete(Note, "a") == 0
        assert [hit.id for hit in shelf.search(Note, "count")] == ["b"]
        assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 2))] == ["b"]
        assert list(shelf.pick(Note, ["b", "a", "b"])) == [shelf.get(Note, "b")] * 2
        shelf.put(note("a", 1, 2, text="count"))
        assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 2))] == ["a", "b"]

    def test_what_the_store_cannot_compare_is_refused(self, shelf: Shelf) -> None:
        for raw in (b"", b"abc", pack([1.0, float("nan")]), pack([float("inf")])):
            with pytest.raises(UsageError, match="vector of minilm is not finite numbers"):
                shelf.put(Note(id="a", vectors={"minilm": raw}))
        with pytest.raises(ValueError, match="1 to 400 characters"):
            note("")
        with pytest.raises(TypeError, match="kind"):
            type("Bad", (Record,), {"KIND": "bad", "__annotations__": {"kind": str}})
        with pytest.raises(TypeError, match="small letters"):
            type("Bad", (Record,), {"KIND": "No Name"})
        assert shelf.kinds() == {}

    # ---- many records ------------------------------------------------------------------------------------

    def test_a_scan_is_ordered_by_code_points(self, shelf: Shelf) -> None:
        names = ["b", "a", "ä", "B", "10", "9", "😀", "\uffff", "a b", "a"]
        shelf.put(*(note(name) for name in names))
        assert [each.id for each in shelf.scan(Note)] == sorted(set(names))
        assert [each.id for each in shelf.scan(Note, after="a")] == sorted(n for n in set(names) if n > "a")

    def test_a_scan_goes_on_beyond_a_page(self, shelf: Shelf) -> None:
        shelf.put(*(note(f"{n:04}", uses=n) for n in range(700)), Other(id="0001"))
        assert [each.uses for each in shelf.scan(Note)] == list(range(700))
        assert [each.uses for each in shelf.scan(Note, {"uses": Between(299, 301)})] == [299, 300, 301]
        assert [each.id for each in shelf.scan(Other)] == ["0001"]
        assert shelf.kinds() == {"an-other": 1, "note": 700}

    def test_a_scan_may_change_what_it_meets(self, shelf: Shelf) -> None:
        shelf.put(*(note(f"{n:04}", uses=n) for n in range(600)))
        for each in shelf.scan(Note):
            if each.uses % 2:
                shelf.delete(Note, each.id)
        assert shelf.count(Note) == 300

    def test_filters(self, shelf: Shelf) -> None:
        shelf.put(
            note("a", stage="new", uses=1, weight=0.1, more={"deep": {"x": "é"}, "flag": True}),
            note("b", stage="old", uses=2, weight=0.3, sure=True, more={"flag": 1}),
            note("c", stage="old", uses=1, weight=0.5, more={"deep": None, "big": 2**60 + 1, "words": ["x"]}),
        )

        def ids(**where: Any) -> str:
            return "".join(
                each.id for each in shelf.scan(Note, {k.replace("__", "."): v for k, v in where.items()})
            )

        assert ids(stage="old") == "bc"
        assert ids(stage="old", uses=1) == "c"
        assert ids(stage=["new", "old"], uses=(2,)) == "b"
        assert ids(stage=[]) == ""
        assert ids(weight=0.3) == "b"
        assert ids(weight=Between(0.1, 0.3)) == "ab"
        assert ids(weight=Between(least=0.31)) == "c"
        assert ids(uses=Between(most=1)) == "ac"
        assert ids(stage=Between("new", "nez")) == "a"
        assert ids(stage=Between(1, 2)) == ids(uses=Between("a")) == ""
        assert ids(sure=True) == "b" and ids(sure=False) == "ac"
        assert ids(uses=True) == "" and ids(more__flag=True) == "a" and ids(more__flag=1) == "b"
        assert ids(more__deep__x="é") == "a"
        assert ids(more__deep=None) == "bc"
        assert ids(more__nothing__here=None) == "abc"
        assert ids(more__big=2**60 + 1) == "c" and ids(more__big=2**60) == ""
        assert ids(id="b") == "b"
        assert [each.id for each in shelf.scan(Note, {'it\'s "odd"': None})] == ["a", "b", "c"]

    # ---- nearness and words ------------------------------------------------------------------------------

    def test_the_nearest_are_those_of_numpy(self, shelf: Shelf) -> None:
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(500, 16)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        shelf.put(*(Note(id=f"{n:03}", vectors={"m": pack(row)}) for n, row in enumerate(rows)))
        for query in rows[:5]:
            known = sorted(range(500), key=lambda n: -float(rows[n] @ query))[:7]
            hits = shelf.nearest(Note, "m", query, 7)
            assert [hit.id for hit in hits] == [f"{n:03}" for n in known]
            assert [hit.score for hit in hits] == pytest.approx(
                [float(rows[n] @ query) for n in known], abs=1e-6
            )
        assert len(shelf.nearest(Note, "m", rows[0], 1000)) == 500

    def test_equally_near_ones_come_by_id(self, shelf: Shelf) -> None:
        shelf.put(*(note(name, 1, 1, text="same words") for name in "dbca"), note("z", 1, 0))
        assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1), 3)] == ["a", "b", "c"]
        assert [hit.id for hit in shelf.search(Note, "same", 3)] == ["a", "b", "c"]

    def test_embedders_are_never_compared(self, shelf: Shelf) -> None:
        shelf.put(note("a", 1, 0, by="minilm"), note("b", 1, 0, by="lexical-1"), note("c"))
        shelf.put(Note(id="both", vectors={"minilm": pack(unit(0, 1)), "lexical-1": pack(unit(1, 1))}))
        assert [hit.id for hit in shelf.nearest(Note, "minilm", unit(1, 0))] == ["a", "both"]
        assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 0))] == ["b", "both"]
        assert shelf.nearest(Note, "sentence:x", unit(1, 0)) == []
        assert shelf.nearest(Note, "minilm", unit(1, 0, 0)) == []

    def test_a_vector_of_another_size_hides_nothing(self, shelf: Shelf) -> None:
        shelf.put(note("a", 1, 0), note("b", 1, 0, 0), note("c", 0, 1))
        assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 0))] == ["a", "c"]

    def test_nearness_follows_every_change(self, shelf: Shelf) -> None:
        rng = np.random.default_rng(2)
        model: dict[str, Any] = {}
        for step in range(300):
            name = f"{rng.integers(40):02}"
            if rng.random() < 0.3:
                shelf.delete(Note, name)
                model.pop(name, None)
            else:
                model[name] = unit(*rng.normal(size=4))
                shelf.put(Note(id=name, vectors={"m": pack(model[name])}))
            if step % 10 == 0 and model:
                query = unit(*rng.normal(size=4))
                known = sorted(model, key=lambda n: -float(model[n] @ query))[:5]
                assert [hit.id for hit in shelf.nearest(Note, "m", query, 5)] == known

    def test_filters_hold_for_what_is_near_and_what_is_found(self, shelf: Shelf) -> None:
        shelf.put(*(note(f"{n:03}", 1, n, text="same", uses=n, sure=n % 50 == 0) for n in range(200)))
        near = [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 0), 3, {"sure": True})]
        assert near == ["000", "050", "100"]
        assert [h.id for h in shelf.nearest(Note, "lexical-1", unit(1, 0), 9, {"sure": True})] == [
            *near,
            "150",
        ]
        assert [hit.id for hit in shelf.search(Note, "same", 2, {"sure": True})] == ["000", "050"]
        with pytest.raises(UsageError, match="limit: 0"):
            shelf.search(Note, "same", 0)

    def test_search_by_words(self, shelf: Shelf) -> None:
        shelf.put(
            note("a", text="How many lines has notes.md?"),
            note("b", text="Sort the lines of a file, then count the lines"),
            note("c", text="naïve café 数一数文件"),
            note("d", text="snake_case and 'quotes\" OR NOT ( * ^"),
            note("e"),
            Other(id="f", text="lines lines lines"),
        )
        assert [hit.id for hit in shelf.search(Note, "line")] == ["b", "a"]
        assert [hit.id for hit in shelf.search(Note, "count lines")] == ["b", "a"]
        assert all(hit.score > 0 for hit in shelf.search(Note, "lines sort"))
        assert [hit.id for hit in shelf.search(Note, "the lines of a file")] == ["b", "a"]
        assert [hit.id for hit in shelf.search(Note, "of the")] == ["b"]
        assert [hit.id for hit in shelf.search(Note, "NAIVE")] == ["c"]
        assert [hit.id for hit in shelf.search(Note, "文件")] == ["c"]
        assert [hit.id for hit in shelf.search(Note, "snake_case")] == ["d"]
        for odd in ("\"'", "OR", "NOT (", "*", "", "_", "a\0b", "\ud800", "NEAR(a b)", "text:lines", "-x"):
            shelf.search(Note, odd)
        assert shelf.search(Note, "absent") == []

    # ---- transactions ------------------------------------------------------------------------------------

    def test_a_transaction_that_fails_leaves_everything_as_it_was(self, shelf: Shelf) -> None:
        shelf.put(note("a", 1, 0, text="count"), note("b", 0, 1, text="sort"))
        before = (list(shelf.scan(Note)), shelf.search(Note, "count sort new"))
        assert len(shelf.nearest(Note, "lexical-1", unit(1, 1))) == 2
        with pytest.raises(KeyError), shelf.transaction():
            shelf.put(note("a", 0, 1, text="new"), note("c", 1, 1, text="new"), Other(id="o", text="words"))
            shelf.delete(Note, "b")
            assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1))] == ["c", "a"]
            assert [hit.id for hit in shelf.search(Note, "new")] == ["a", "c"]
            raise KeyError
        assert (list(shelf.scan(Note)), shelf.search(Note, "count sort new")) == before
        assert shelf.nearest(Note, "lexical-1", unit(1, 0)) == [Hit("a", 1.0), Hit("b", 0.0)]
        assert shelf.kinds() == {"note": 2}
        shelf.put(Other(id="o", text="words"))
        assert [hit.id for hit in shelf.search(Other, "words")] == ["o"]
        assert shelf.check() == []

    def test_a_transaction_inside_another_joins_it(self, shelf: Shelf) -> None:
        with pytest.raises(KeyError), shelf.transaction():
            with shelf.transaction():
                shelf.put(note("a"))
            raise KeyError
        assert shelf.kinds() == {}
        with pytest.raises(UsageError, match="a part of this transaction failed"), shelf.transaction():
            shelf.put(note("a"))
            with pytest.raises(KeyError), shelf.transaction():
                shelf.put(note("b"))
                raise KeyError
        assert shelf.kinds() == {}
        with shelf.transaction():
            shelf.put(note("c"))
        assert shelf.kinds() == {"note": 1}

    def test_rebuilding_changes_no_answer(self, shelf: Shelf) -> None:
        shelf.put(*(note(f"{n}", 1, n, text=f"word{n} shared") for n in range(20)))
        shelf.delete(Note, "3", "4")
        queries = unit(1, 5), "shared word7"
        before = (
            shelf.nearest(Note, "lexical-1", queries[0]),
            [hit.id for hit in shelf.search(Note, queries[1])],
        )
        assert shelf.rebuild() == []
        after = (
            shelf.nearest(Note, "lexical-1", queries[0]),
            [hit.id for hit in shelf.search(Note, queries[1])],
        )
        assert before == after
        assert shelf.check() == []

    def test_any_sequence_of_operations_is_as_in_a_dict(self, tmp_path: Path) -> None:
        opened, keeps = self.open, self.STORE != "memory"
        counter = iter(range(10**9))

        class Machine(RuleBasedStateMachine):
            @initialize()
            def start(self) -> None:
                self.folder = tmp_path / f"{next(counter)}"
                self.shelf = opened(self.folder, fsync=False)
                self.model: dict[str, Note] = {}

            @rule(
                id=NAMES, text=TEXTS, uses=st.integers(0, 3), at=st.sampled_from([(), (1, 0), (0, 1), (1, 1)])
            )
            def put(self, id: str, text: str, uses: int, at: tuple[float, ...]) -> None:
                self.model[id] = note(id, *at, text=text, uses=uses)
                self.shelf.put(self.model[id])

            @rule(id=NAMES)
            def delete(self, id: str) -> None:
                assert self.shelf.delete(Note, id) == (self.model.pop(id, None) is not None)

            @rule(ids=st.lists(NAMES, max_size=3), fails=st.booleans(), text=TEXTS)
            def together(self, ids: list[str], fails: bool, text: str) -> None:
                new = {id: note(id, 1, 1, text=text) for id in ids}
                try:
                    with self.shelf.transaction():
                        self.shelf.put(*new.values())
                        self.shelf.delete(Note, "a")
                        assert not fails
                except AssertionError:
                    return
                self.model |= new
                self.model.pop("a", None)

            @rule(uses=st.integers(0, 3))
            def filtered(self, uses: int) -> None:
                known = [self.model[id] for id in sorted(self.model) if self.model[id].uses == uses]
                assert list(self.shelf.scan(Note, {"uses": uses})) == known

            @rule()
            def opened_again(self) -> None:
                if keeps:
                    self.shelf.close()
                    self.shelf = opened(self.folder, fsync=False)

            @rule()
            def rebuilt(self) -> None:
                assert self.shelf.rebuild() == []

            @invariant()
            def same(self) -> None:
                if not hasattr(self, "model"):
                    return
                assert list(self.shelf.scan(Note)) == [self.model[id] for id in sorted(self.model)]
                near = {hit.id for hit in self.shelf.nearest(Note, "lexical-1", unit(1, 0), 99)}
                assert near == {id for id, each in self.model.items() if each.vectors}
                found = {hit.id for hit in self.shelf.search(Note, "alpha", 99)}
                assert found == {id for id, each in self.model.items() if "alpha" in each.text}

            def teardown(self) -> None:
                if hasattr(self, "shelf"):
                    assert self.shelf.check() == []
                    self.shelf.close()

        from hypothesis.stateful import run_state_machine_as_test

        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples(60),
                stateful_step_count=20,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


NAMES = st.sampled_from(["a", "b", "B", "ä", "x/y", "\ud800", "a\0"])
TEXTS = st.sampled_from(["", "alpha", "alpha beta", "beta", "alpha\0gamma", "\udfff alpha"])


class OnDisk(Contract):
    """Tests of a store that others may have open, and that outlives its process."""

    def program(self, folder: Path, name: str, *more: str) -> list[str]:
        return [
            sys.executable,
            str(Path(__file__).parent / "shelves.py"),
            self.store(folder),
            str(folder),
            name,
            *more,
        ]

    def test_two_processes_write_at_once(self, tmp_path: Path) -> None:
        folder = tmp_path / "brain"
        writers = [
            subprocess.Popen(self.program(folder, name, "40"), stdout=subprocess.PIPE) for name in "xy"
        ]
        with self.closing(folder) as shelf:
            written = 0
            while any(each.poll() is None for each in writers):
                shelf.put(note(f"z-{(written := written + 1)}", 1, 1))
                assert len(list(shelf.scan(Note))) <= shelf.count(Note)
                left, right = (len(list(shelf.scan(Note, {"uses": Between(1, 39)}))) for _ in "12")
                assert left % 2 == 0 and right >= left
            assert [each.wait() for each in writers] == [0, 0]
            assert {each.id for each in shelf.scan(Note) if each.id[0] in "xy"} == {
                f"{name}-{n:05}-{side}" for name in "xy" for n in range(40) for side in "ab"
            }
            assert len(shelf.nearest(Note, "lexical-1", unit(1, 1), 1000)) == shelf.count(Note)
            assert len(shelf.search(Note, "right", 1000)) == 80
            assert shelf.check() == []

    def test_what_others_changed_is_news(self, tmp_path: Path) -> None:
        here, there = (self.open(tmp_path / "brain", fsync=False) for _ in range(2))
        here.put(note("a", 1, 2))
        since, _ = here.news()
        there.put(note("b", 1, 2))
        since, changes = here.news(since)
        assert changes == [("note", "b")]
        there.delete(Note, "b")
        here.put(note("c", 1, 2))  # in between: the change before it must not be overlooked
        since, changes = here.news(since)
        assert changes == [("note", "b"), ("note", "c")]
        for shelf in (here, there):
            shelf.close()

    def test_a_change_by_another_process_is_seen_at_once(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as one, self.closing(tmp_path) as two:
            one.put(note("a", 1, 0, text="count"))
            assert two.nearest(Note, "lexical-1", unit(1, 0)) == [Hit("a", 1.0)]
            two.put(note("a", 0, 1, text="sort"), note("b", 1, 0))
            assert one.nearest(Note, "lexical-1", unit(1, 0)) == [Hit("b", 1.0), Hit("a", 0.0)]
            assert one.get(Note, "a").text == "sort"  # type: ignore[union-attr]
            two.delete(Note, "b")
            assert [hit.id for hit in one.nearest(Note, "lexical-1", unit(1, 0))] == ["a"]
            two.rebuild()
            two.put(note("c", 1, 0))
            assert [hit.id for hit in one.nearest(Note, "lexical-1", unit(1, 0))] == ["c", "a"]

    def test_killed_at_any_moment_it_keeps_what_was_acknowledged(self, tmp_path: Path) -> None:
        folder = tmp_path / "brain"
        acknowledged: dict[str, int] = {}
        for number in range(0, 12, every(5)):
            name = f"run{number:02}"
            with subprocess.Popen(self.program(folder, name), stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout
                first_lines = sum(1 for _ in range(1 + number % 3) if writer.stdout.readline())
                pause(0.002 * number)
                writer.send_signal(signal.SIGKILL)
                acknowledged[name] = first_lines + sum(1 for line in writer.stdout if line.endswith("\n"))
            with self.closing(folder) as shelf:
                ids = [each.id for each in shelf.scan(Note)]
                for run, count in acknowledged.items():
                    mine = [id for id in ids if id.startswith(run)]
                    assert len(mine) in (2 * count, 2 * count + 2), (
                        "a transaction is there whole, or not at all"
                    )
                assert {hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1), 10**6)} == set(ids)
                assert shelf.check() == []
        assert sum(acknowledged.values()) >= 2 * len(acknowledged)

    def test_a_full_disk_is_said_and_loses_nothing(self, tmp_path: Path) -> None:
        if not shutil.which("unshare"):
            pytest.skip("unshare is not installed, so no small disk can be mounted")
        disk = tmp_path / "disk"
        disk.mkdir()
        program = f"exec {sys.executable} -c '{FULL}' {self.STORE} {disk}"
        script = f"mount -t tmpfs -o size=1200k tmpfs {disk} && {program}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        words = ["unshare", "-rm", "sh", "-c", script]
        ran = subprocess.run(words, capture_output=True, text=True, env=environment)
        if ran.returncode and ("Operation not permitted" in ran.stderr or "permission denied" in ran.stderr):
            pytest.skip(f"this machine allows no mounts in a namespace: {ran.stderr.strip()}")
        assert ran.returncode == 0, ran.stderr
        assert "free space on that disk" in ran.stdout

    def test_another_format_is_refused(self, tmp_path: Path) -> None:
        raise NotImplementedError

    def closing(self, folder: Path) -> Any:
        from contextlib import closing

        return closing(self.open(folder))


FULL = """
import sys
from pathlib import Path
from kernel.errors import StorageError
from runtime.memory.store import open_shelf
from shelves import Note, note
shelf = open_shelf(sys.argv[1], Path(sys.argv[2]) / "brain")
filler = Path(sys.argv[2]) / "filler"
filler.write_bytes(b"x" * 600_000)
kept = 0
try:
    for number in range(10000):
        with shelf.transaction():
            shelf.put(note(f"{number:05}-a", 1, 2, text="word " * 300))
            shelf.put(note(f"{number:05}-b", text="word " * 300))
        kept += 1
except StorageError as error:
    print(error)
def whole(shelf):
    ids = [each.id for each in shelf.scan(Note)]
    assert len(ids) in (2 * kept, 2 * kept + 2), (len(ids), kept)
    assert all(len(each.text) == 1500 for each in shelf.scan(Note))
assert 3 < kept < 10000, kept
whole(shelf)
whole(open_shelf(sys.argv[1], Path(sys.argv[2]) / "brain"))
filler.unlink()
shelf.delete(Note, *(f"{n:05}-{side}" for n in range(kept // 2) for side in "ab"))
kept -= kept // 2
shelf.put(note("after"))
assert shelf.get(Note, "after")
assert shelf.check() == []
"""
