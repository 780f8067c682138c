"""The shelf in PostgreSQL keeps the contract, between processes and through restarts of the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path

import psycopg
import pytest
from contract import OnDisk
from postgres_server import PostgresServer
from shelves import Note, note, unit

from kernel.errors import ConfigurationError, StorageError, UsageError
from runtime.memory.store import open_shelf


@pytest.mark.usefixtures("postgres")
class TestPostgres(OnDisk):
    STORE = "postgres:"

    def store(self, folder: Path) -> str:
        return f"postgres:{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"

    test_a_full_disk_is_said_and_loses_nothing = None  # type: ignore[assignment]  # the disk is the server's

    def test_another_format_is_refused(self, tmp_path: Path, postgres: PostgresServer) -> None:
        self.open(tmp_path).close()
        with psycopg.connect(postgres.address) as base:
            base.execute(f'UPDATE "fractal_{self.store(tmp_path)[9:]}".format SET number = 3')
        with pytest.raises(ConfigurationError, match="its format is 3, and this Fractal reads"):
            self.open(tmp_path)

    def test_several_open_a_new_store_at_once(self, tmp_path: Path) -> None:
        def opened(name: str) -> int:
            with closing(open_shelf(name, tmp_path)) as shelf:
                return shelf.count(Note)

        for number in range(8):
            name = f"{self.store(tmp_path)}{number}"
            with ThreadPoolExecutor(4) as pool:
                assert [*pool.map(opened, [name] * 4)] == [0] * 4

    def test_killed_in_a_transaction_it_leaves_nothing_and_holds_up_nobody(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", HALF_DONE, self.store(tmp_path), str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a", 1, 1, text="before"))
            mark, _ = shelf.news()
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as it:
                assert it.stdout and it.stdout.readline() == b"written\n"
                assert shelf.get(Note, "b") is None
                it.send_signal(signal.SIGKILL)
            assert [each.text for each in shelf.scan(Note)] == ["before"]
            assert shelf.news(mark) == (mark, [])
            shelf.put(note("c", text="after"))
            assert [hit.id for hit in shelf.search(Note, "before after half")] == ["a", "c"]
            assert shelf.check() == []

    def test_when_the_server_stops_it_says_so_and_goes_on_afterwards(
        self, tmp_path: Path, postgres: PostgresServer
    ) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a", 1, 1))
            assert shelf.nearest(Note, "lexical-1", unit(1, 1))
            with pytest.raises(UsageError, match="a part of this transaction failed"), shelf.transaction():
                shelf.put(note("b"))
                postgres.stop()
                for _ in "12":  # the second time, too: no other connection writes a half of it
                    with pytest.raises(StorageError, match=r"postgres:\w+ at /.*see that PostgreSQL runs"):
                        shelf.put(note("c"))
            with pytest.raises(StorageError, match="FRACTAL_POSTGRES is right, then retry"):
                shelf.get(Note, "a")
            with pytest.raises(StorageError, match="FRACTAL_POSTGRES is right, then retry"):
                self.open(tmp_path)
            postgres.start()
            assert [each.id for each in shelf.scan(Note)] == ["a"]
            assert [hit.id for hit in shelf.nearest(Note, "lexical-1", unit(1, 1))] == ["a"]
            shelf.put(note("d"))
            assert shelf.check() == []

    def test_what_waits_too_long_for_another_writer_says_so(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as one, self.closing(tmp_path) as two:
            two.keeper.base.execute("SET lock_timeout = '50ms'")
            with one.transaction():
                one.put(note("a"))
                with pytest.raises(StorageError, match="another process holds it; retry when that is done"):
                    two.put(note("b"))
            two.put(note("b"))
            assert [each.id for each in one.scan(Note)] == ["a", "b"]

    def test_after_a_statement_that_failed_nothing_is_kept(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            with pytest.raises(StorageError, match="nothing of its transaction is kept"), shelf.transaction():
                shelf.put(note("a"))
                with suppress(StorageError), shelf.keeper.errors():
                    shelf.keeper.base.execute("SELECT 1 / 0")
            assert shelf.kinds() == {}

    def test_a_child_after_a_fork_has_a_connection_of_its_own(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a", 1, 1))
            assert len(shelf.nearest(Note, "lexical-1", unit(1, 1))) == 1
            child = os.fork()
            if child == 0:
                shelf.put(note("b", 1, 1))
                os._exit(0 if len(shelf.nearest(Note, "lexical-1", unit(1, 1))) == 2 else 1)
            assert os.waitpid(child, 0)[1] == 0
            shelf.put(note("c"))
            assert [each.id for each in shelf.scan(Note)] == ["a", "b", "c"]

    def test_a_broken_row_is_reported_and_put_aside(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            shelf.put(note("a", 1, 1, text="same"), note("b", 1, 1, text="same"))
            shelf.keeper.base.execute("UPDATE records SET body = 'x' WHERE id = ?", (b"b",))
            assert [each.id for each in shelf.scan(Note)] == ["a"]
            assert [fault.where[-6:] for fault in shelf.check()] == ["note b"]
            assert [fault.where[-6:] for fault in shelf.rebuild()] == ["note b"]
            assert shelf.check() == [] and [hit.id for hit in shelf.search(Note, "same")] == ["a"]
            assert (tmp_path / f"{self.store(tmp_path).replace(':', '-')}.quarantine").exists()

    def test_names_and_spaces_are_apart_and_machines_with_one_name_together(self, tmp_path: Path) -> None:
        here, there = tmp_path / "one/state", tmp_path / "two/state"
        name = self.store(tmp_path)
        folders = (here / "memory", there / "memory", here / "spaces/lab/memory", there / "spaces/lab/memory")
        first, second, third, fourth = (open_shelf(name, folder, fsync=False) for folder in folders)
        other = open_shelf(f"{name}x", folders[0], fsync=False)
        first.put(note("a"))
        third.put(note("b"))
        for shelf, ids in ((first, "a"), (second, "a"), (third, "b"), (fourth, "b"), (other, "")):
            assert "".join(each.id for each in shelf.scan(Note)) == ids
            shelf.close()
        assert first.keeper.here != second.keeper.here != ""

    def test_a_text_of_any_length_is_kept_and_its_beginning_searched(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as shelf:
            many = " ".join(f"w{n:x}" for n in range(100_000))
            shelf.put(note("same", text="again " * 100_000), note("many", text=many))
            shelf.put(note("long", text="x" * 1_000_000), note("wide", text="\ufdfa \U00020000 " * 100_000))
            assert [hit.id for hit in shelf.search(Note, "again w7")] == ["same", "many"]
            assert shelf.rebuild() == shelf.check() == []

    def test_one_machine_at_a_time_holds_what_only_one_may_do(self, tmp_path: Path) -> None:
        with self.closing(tmp_path) as one, self.closing(tmp_path) as two:
            with one.keeper.held("dream") as mine, two.keeper.held("dream") as yours:
                assert mine and not yours
            with two.keeper.held("dream") as yours:
                assert yours

    def test_an_address_that_is_missing_or_wrong_is_told_without_its_password(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("FRACTAL_POSTGRES")
        with pytest.raises(ConfigurationError, match="needs a database; set FRACTAL_POSTGRES to an address"):
            self.open(tmp_path)
        monkeypatch.setenv("FRACTAL_POSTGRES", "host=nowhere.invalid password=hush%2secret x")
        with pytest.raises(ConfigurationError, match="FRACTAL_POSTGRES: cannot be read; set ") as wrong:
            self.open(tmp_path)
        monkeypatch.setenv("FRACTAL_POSTGRES", "postgresql://me:hush-secret@127.0.0.1:1/db")
        with pytest.raises(StorageError, match=r"at 127\.0\.0\.1/db: .*see that PostgreSQL runs") as failed:
            self.open(tmp_path)
        assert "hush" not in f"{wrong.value}{failed.value}"
        for name in ("x" * 40, 'x"; DROP SCHEMA public; --'):
            with pytest.raises(ConfigurationError, match="use up to 55 small letters, digits and hyphens"):
                open_shelf(f"postgres:{name}", tmp_path / "state/spaces" / ("y" * 20) / "memory")


HALF_DONE = """
import sys, time
from pathlib import Path
from runtime.memory.store import open_shelf
from shelves import Note, note
shelf = open_shelf(sys.argv[1], Path(sys.argv[2]))
with shelf.transaction():
    shelf.put(note("b", 1, 1, text="half"))
    shelf.delete(Note, "a")
    print("written", flush=True)
    time.sleep(60)
"""
