"""The shelf of files keeps the contract, and a person may read and correct it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from contract import OnDisk
from lanes import every
from shelves import Note, note, unit, write_for_ever

from bench.crash import faults
from kernel.errors import ConfigurationError, StorageError
from runtime.memory.store import open_shelf


class TestFiles(OnDisk):
    STORE = "files"

    def test_another_format_is_refused(self, tmp_path: Path) -> None:
        self.open(tmp_path).close()
        (tmp_path / "brain" / "shelf.json").write_text('{"format": 3}')
        with pytest.raises(
            ConfigurationError, match=r"shelf\.json: its format is 3, and this Fractal reads up to 2; update"
        ):
            self.open(tmp_path)
        (tmp_path / "brain" / "shelf.json").write_text("{")
        with pytest.raises(StorageError, match=r"shelf\.json: cannot be read"):
            self.open(tmp_path)

    def test_a_record_is_a_file_that_a_person_reads_and_corrects(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("count-lines", text="count the lines — quickly", uses=3))
            path = tmp_path / "brain" / "note" / "count-lines.json"
            text = path.read_text("utf-8")
            assert '\n "text": "count the lines — quickly",\n' in text
            path.write_text(text.replace("quickly", "slowly").replace('"uses": 3', '"uses": 40'), "utf-8")
            assert shelf.get(Note, "count-lines").uses == 40  # type: ignore[union-attr]
            assert [hit.id for hit in shelf.search(Note, "slowly")] == ["count-lines"]
            assert shelf.search(Note, "quickly") == []
            path.unlink()
            assert shelf.count(Note) == 0

    def test_a_broken_file_is_reported_by_name_and_the_others_work(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(*(note(name, 1, 1, text="same") for name in "abcdef"))
            folder = tmp_path / "brain" / "note"
            (folder / "a.json").write_text('{"id": "a"')
            (folder / "b.json").write_bytes(b"\xff\xfe")
            (folder / "c.json").write_text((folder / "d.json").read_text())
            (folder / "e.json").write_text(json.dumps({"format": 3, "kind": "note", "id": "e"}))
            assert [each.id for each in shelf.scan(Note)] == ["d", "f"]
            assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1))] == ["d", "f"]
            assert [Path(fault.where).name for fault in shelf.check()] == [f"{n}.json" for n in "abce"]
            assert len(shelf.rebuild()) == 4
            assert sorted(path.name for path in (tmp_path / "brain/quarantine/note").iterdir()) == [
                f"{n}.json" for n in "abce"
            ]
            assert shelf.check() == []

    @pytest.mark.parametrize("where", ["before", "half", "after"])
    def test_ended_at_any_call_that_changes_a_file_it_is_whole(self, tmp_path: Path, where: str) -> None:
        ended = 0
        for at in range(1, 90, every(9)):
            folder = tmp_path / str(at)
            code, acknowledged = ended_at(folder, at, where)
            with self.closing(folder) as shelf:
                ids = [each.id for each in shelf.scan(Note)]
                assert len(ids) in (2 * acknowledged, 2 * acknowledged + 2), (at, ids)
                assert shelf.check() == []
                left = [path.name for path in (folder / "brain").rglob(".*.tmp")]
                assert left == []
            if code == 0:
                break
            ended += 1
        assert ended > 20 // every(9)


def ended_at(folder: Path, at: int, where: str) -> tuple[int, int]:
    """Write pairs in a child process that ends at call `at`; return its exit code and acknowledged writes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        faults.install()
        sys.stdout = os.fdopen(1, "w")
        shelf = open_shelf("files", folder)
        faults.arm(at, where, os.open(os.devnull, os.O_WRONLY), every=False)
        with suppress(BaseException):
            write_for_ever(shelf, "run", 3)
            os._exit(0)
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as output:
        lines = output.read().split()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(lines)
