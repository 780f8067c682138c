"""The shelf in SQLite keeps the contract, and repairs itself."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from contract import OnDisk
from shelves import Note, note, unit

from kernel.errors import ConfigurationError, StorageError
from runtime.memory.store.sqlite import salvage


class TestSqlite(OnDisk):
    STORE = "sqlite"

    def test_another_format_is_refused(self, tmp_path: Path) -> None:
        self.open(tmp_path).close()
        base = sqlite3.connect(tmp_path / "brain.sqlite3")
        base.execute("PRAGMA user_version = 3")
        base.close()
        with pytest.raises(
            ConfigurationError,
            match=r"brain\.sqlite3: its format is 3, and this Fractal reads up to 2; update",
        ):
            self.open(tmp_path)

    def test_a_file_that_is_no_database_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "brain.sqlite3").write_bytes(b"not a database, by any means" * 100)
        with pytest.raises(
            StorageError, match=r"brain\.sqlite3: file is not a database; .* fractal brain rebuild"
        ):
            self.open(tmp_path)

    def test_a_broken_row_is_reported_and_the_others_work(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(*(note(name, 1, 1, text="same", uses=1) for name in "abcd"))
        base = sqlite3.connect(tmp_path / "brain.sqlite3")
        base.execute("UPDATE records SET body = '{\"id\": ' WHERE id = CAST('b' AS BLOB)")
        base.execute("UPDATE records SET body = CAST(X'7BFF7D' AS TEXT) WHERE id = CAST('c' AS BLOB)")
        base.execute('UPDATE records SET body = \'{"id": "d", "uses": "x"}\' WHERE id = CAST(\'d\' AS BLOB)')
        base.commit()
        base.close()
        with self.closing(tmp_path) as shelf:
            assert [each.id for each in shelf.scan(Note)] == ["a"]
            assert [each.id for each in shelf.scan(Note, {"uses": 1})] == ["a"]
            assert shelf.get(Note, "b") is None
            assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1), where={"uses": 1})] == [
                "a"
            ]
            assert sorted(where[-6:] for where in shelf.faults) == ["note b", "note c", "note d"]
            assert sorted(fault.where[-6:] for fault in shelf.check()) == ["note b", "note c", "note d"]
            lost = shelf.rebuild()
            assert sorted(fault.where[-6:] for fault in lost) == ["note b", "note c"]
            assert shelf.check() == []
            assert (tmp_path / "brain.sqlite3.quarantine").read_text().count("\n") == 2

    def test_a_damaged_vector_hides_no_other(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a", 1, 1), note("b", 1, 1), note("c", 1, 1))
        base = sqlite3.connect(tmp_path / "brain.sqlite3")
        base.execute("UPDATE vectors SET vector = X'000102' WHERE number = 1")
        base.commit()
        base.close()
        with self.closing(tmp_path) as shelf:
            assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1))] == ["b", "c"]
            assert [fault.what for fault in shelf.check()] == ["a damaged vector of record 1"]
            assert shelf.rebuild() == []
            assert shelf.check() == []

    def test_an_index_that_lost_words_is_reported_and_rebuilt(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(*(note(name, text=f"word {name}") for name in "abc"))
            base = sqlite3.connect(tmp_path / "brain.sqlite3")
            base.execute("DELETE FROM words_note WHERE rowid = 2")
            base.commit()
            base.close()
            assert [fault.what for fault in shelf.check()] == ["its words are not in the index"]
            assert shelf.rebuild() == []
            assert shelf.check() == []
            assert len(shelf.search(Note, "word")) == 3

    def test_what_can_be_read_of_a_damaged_file_is_saved(self, tmp_path: Path) -> None:
        path = tmp_path / "brain.sqlite3"
        with self.closing(tmp_path) as shelf:
            shelf.put(*(note(f"{n:04}", 1, n, text=f"word{n} " * 50) for n in range(2000)))
        raw = bytearray(path.read_bytes())
        middle = len(raw) // 4096 // 2 * 4096
        raw[middle : middle + 8192] = os.urandom(8192)
        path.write_bytes(raw)
        with self.closing(tmp_path) as shelf:
            assert shelf.check() != []
            (lost, *_) = shelf.rebuild()
            assert "records were saved from it" in lost.what
            assert shelf.count(Note) > 500
            assert shelf.check() == []
            assert len(shelf.search(Note, "word7", 5000)) <= 1
        assert len(list(tmp_path.glob("brain.sqlite3.broken-*"))) == 1

    @pytest.mark.parametrize("harm", ["flipped bits", "no table", "half a file"])
    def test_what_is_whole_is_saved_from(self, tmp_path: Path, harm: str) -> None:
        path = tmp_path / "brain.sqlite3"
        with self.closing(tmp_path) as shelf:
            shelf.put(*(note(f"{n:04}", 1, n, text=f"wörd{n} " * 50) for n in range(2000)))
        raw = bytearray(path.read_bytes())
        if harm == "flipped bits":
            for at in range(40_000, len(raw), 25_001):
                raw[at] ^= 0x80
        path.write_bytes(raw[: len(raw) // 2] if harm == "half a file" else raw)
        if harm == "no table":
            with sqlite3.connect(path) as base:
                base.execute("DROP TABLE vectors")
            base.close()
        (lost, *_) = salvage(path)
        assert "records were saved from it" in lost.what
        with self.closing(tmp_path) as shelf:
            shelf.rebuild()
            assert shelf.check() == []
            least = {"flipped bits": 1700, "no table": 2000, "half a file": 300}
            assert shelf.count(Note) >= least[harm]

    def test_a_missing_table_is_reported_and_repaired(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a"))
        with sqlite3.connect(tmp_path / "brain.sqlite3") as base:
            base.execute("DROP TABLE counters")
        base.close()
        with self.closing(tmp_path) as shelf:
            assert any("the table counters is missing" in fault.what for fault in shelf.check())
            shelf.rebuild()
            assert shelf.check() == [] and shelf.count(Note) == 1

    def test_an_empty_file_is_an_error_and_not_an_empty_memory(self, tmp_path: Path) -> None:
        path = tmp_path / "brain.sqlite3"
        path.touch()
        os.utime(path, (1e9, 1e9))
        with pytest.raises(StorageError, match=r"is empty \(0 bytes\), so what it held is lost"):
            self.open(tmp_path)
        path.touch()  # just made: by another process, which is about to fill it
        self.open(tmp_path).close()

    def test_a_child_after_a_fork_has_a_connection_of_its_own(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a"))
            child = os.fork()
            if child == 0:
                shelf.put(note("b"))
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            shelf.put(note("c"))
            assert [each.id for each in shelf.scan(Note)] == ["a", "b", "c"]
