"""A memory of format 1 is migrated once, after a backup, whatever happens meanwhile.

`format-1.sqlite3.gz` was written by the version before format 2: eleven facts were told with their dates,
and two that contradict each other were imported, which no gate has seen.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import signal
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crashing import crashes
from lanes import every

from kernel.errors import ConfigurationError, StorageError
from runtime.api import knowledge
from runtime.api.fractal import Fractal
from runtime.memory.facts import graph
from runtime.memory.facts.migration import part_all
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.forgetting.forgetting import Forgetting
from runtime.memory.forgetting.request import Request
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.store.files import name_of
from runtime.memory.store.migration import backups, migrate
from runtime.memory.store.moving import lines, take
from runtime.memory.store.record import FORMAT
from runtime.workspace.workspace import brain_place

OLD = Path(__file__).with_name("format-1.sqlite3.gz")
LATER, EARLIER = "the spare key is with Marta", "the spare key is with Ida"
STORES = ("sqlite", "files")


def old_rows(path: Path) -> Iterator[dict[str, object]]:
    """The records of an old database, each as the store of files of that version wrote it."""
    with closing(sqlite3.connect(path)) as base:
        for number, kind, body in base.execute("SELECT number, kind, body FROM records").fetchall():
            query = "SELECT embedder, vector FROM vectors WHERE number = ? AND vector NOTNULL"
            vectors = {name: b64encode(raw).decode() for name, raw in base.execute(query, (number,))}
            yield {"format": 1, "kind": kind, **json.loads(body), **({"vectors": vectors} if vectors else {})}


def workspace(folder: Path, store: str = "sqlite") -> Path:
    """A workspace with a memory of format 1; returns where the store is."""
    place = brain_place(store, folder / "state" / "memory")
    place.parent.mkdir(parents=True)
    (folder / "fractal.yaml").write_text(f"embedder: lexical\nstore: {store}\n")
    database = place if store == "sqlite" else folder / "old.sqlite3"
    database.write_bytes(gzip.decompress(OLD.read_bytes()))
    if store == "files":
        for fields in old_rows(database):
            file = place / str(fields["kind"]) / name_of(str(fields["id"]))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(fields))
        (place / "shelf.json").write_text('{"format": 1}\n')
    return place


def opened(folder: Path) -> Shelf:
    return Fractal(folder).brain.shelf


def holding(shelf: Shelf) -> set[str]:
    return {each.text for each in shelf.scan(Memory, {"superseded": "", "until": ""})}


def everything(shelf: Shelf) -> dict[tuple[str, str], str]:
    return {(kind, row.id): row.body for kind in shelf.kinds() for row in shelf.rows(kind)}


@pytest.mark.parametrize("store", STORES)
def test_an_old_memory_is_migrated_once_and_says_so(tmp_path, store, caplog):
    place = workspace(tmp_path, store)
    with closing(open_shelf(store, place.parent)) as shelf:
        before = everything(shelf)
        assert shelf.keeper.version() == 1
        assert {LATER, EARLIER} <= holding(shelf)
    with closing(opened(tmp_path)) as shelf:
        assert shelf.keeper.version() == FORMAT
        assert {LATER, EARLIER} <= holding(shelf), "no words close a fact"
        assert before.keys() <= everything(shelf).keys()
        assert shelf.check() == []
    (backup,) = backups(place)
    assert [record.message for record in caplog.records] == [
        f"{place}: migrated from format 1 to 2: 13 memories compared, "
        f"0 parted from one that says something else; "
        f"a backup is in {backup}"
    ]
    opened(tmp_path).close()
    assert len(caplog.records) == 1
    assert backups(place) == [backup]
    assert backup.stat().st_mode & 0o077 == 0, "nobody else may read it"
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    backup.rename(place)
    with closing(open_shelf(store, place.parent)) as shelf:
        assert everything(shelf) == before


def test_a_fact_that_was_merged_with_its_opposite_is_parted_from_it(tmp_path):
    place = workspace(tmp_path)
    with closing(open_shelf("sqlite", place.parent)) as shelf:
        facts = {each.text: each for each in shelf.scan(Observation)}
        (wrong,) = (each for each in shelf.scan(Memory) if each.text == LATER)
        (memory,) = (each for each in shelf.scan(Memory) if each.text == EARLIER)
        shelf.delete(Memory, wrong.id)
        graph.merge(shelf, [facts[LATER]], memory, "2026-04-21T00:00:00.000Z")
    with closing(opened(tmp_path)) as shelf:
        assert LATER in holding(shelf)
        (past,) = (each for each in shelf.scan(Memory) if each.text == EARLIER)
        (parted,) = (each for each in shelf.scan(Memory) if each.text == LATER)
        assert (past.superseded, parted.confidence) == ("", 0.8)
        assert past.confidence == memory.confidence
        assert past.evidence == memory.evidence


def test_recall_says_what_holds_after_the_migration(tmp_path):
    workspace(tmp_path)
    hits = knowledge.recall(Fractal(tmp_path), "who has the spare key")
    assert hits[0].text == LATER


@pytest.mark.parametrize("store", STORES)
def test_a_migration_that_is_killed_is_done_by_the_next_process(tmp_path, store):
    untouched = workspace(tmp_path / "old", store)
    with closing(open_shelf(store, untouched.parent)) as shelf:
        before = everything(shelf)
    at, crashed = 1, True
    while crashed:
        folder = tmp_path / f"ws-{at}"
        place = workspace(folder, store)
        crashed = crashes(lambda folder=folder: opened(folder), at, "before")
        with closing(open_shelf(store, place.parent)) as shelf:
            assert shelf.keeper.version() == FORMAT or everything(shelf) == before
        with closing(opened(folder)) as shelf:
            assert LATER in holding(shelf)
            assert shelf.check() == []
        for each in backups(place):
            with closing(open_shelf(store, _restored(each, folder / "backup", store))) as shelf:
                assert everything(shelf) == before, "a backup is complete or not there"
        at += (7 if store == "sqlite" else 60) * every(3)
    assert at > 7


@pytest.mark.parametrize("store", STORES)
def test_killed_within_its_transaction_it_leaves_the_memory_as_it_was(tmp_path, store):
    place = workspace(tmp_path, store)

    def dies() -> None:
        shelf = open_shelf(store, place.parent)
        migrate(shelf, place, lambda shelf: (part_all(shelf, ()), os.kill(os.getpid(), signal.SIGKILL))[0])

    with closing(open_shelf(store, place.parent)) as shelf:
        before = everything(shelf)
    assert os.WTERMSIG(os.waitpid(forked(dies), 0)[1]) == signal.SIGKILL
    with closing(open_shelf(store, place.parent)) as shelf:
        assert shelf.keeper.version() == 1
        assert everything(shelf) == before
    assert LATER in holding(opened(tmp_path))
    assert len(backups(place)) == 2, "each attempt has its own"


def _restored(backup: Path, folder: Path, store: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (shutil.copytree if backup.is_dir() else shutil.copy)(backup, brain_place(store, folder))
    return folder


def forked(act: Callable[[], object]) -> int:
    """A child process that does this; its exit code is 1 if it fails."""
    if child := os.fork():
        return child
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.parametrize("store", STORES)
def test_of_two_processes_one_migrates(tmp_path, store):
    place = workspace(tmp_path, store)
    children = [forked(lambda: opened(tmp_path).close()) for _ in range(3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(backups(place)) == 1
    assert LATER in holding(opened(tmp_path))


@pytest.mark.parametrize(("store", "most"), [("sqlite", 150_000), ("files", 1_000)])
def test_without_room_for_a_backup_nothing_is_migrated(tmp_path, store, most):
    place, said = workspace(tmp_path, store), tmp_path / "said"

    def cramped() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        try:
            opened(tmp_path)
        except StorageError as error:
            said.write_text(str(error))

    assert os.waitpid(forked(cramped), 0)[1] == 0
    assert "nothing is migrated from format 1 to 2 before there is a backup" in said.read_text()
    assert backups(place) == []
    assert not [path for path in place.parent.iterdir() if "unfinished" in path.name]
    with closing(open_shelf(store, place.parent)) as shelf:
        assert shelf.keeper.version() == 1
    assert LATER in holding(opened(tmp_path)), "with room, it goes on"


@pytest.mark.parametrize("store", STORES)
def test_a_newer_memory_is_refused_with_what_to_do(tmp_path, store):
    place = workspace(tmp_path, store)
    if store == "files":
        (place / "shelf.json").write_text('{"format": 3}')
    else:
        with closing(sqlite3.connect(place)) as base:
            base.execute("PRAGMA user_version = 3")
    with pytest.raises(ConfigurationError, match=r"its format is 3, .* update Fractal"):
        opened(tmp_path)
    assert backups(place) == []


def test_an_old_export_is_migrated_when_it_is_used(tmp_path):
    place = workspace(tmp_path / "old")
    with closing(open_shelf("sqlite", place.parent)) as shelf:
        exported = [("export", line.encode()) for line in lines(shelf)]
    (tmp_path / "new").mkdir()
    new = Fractal(tmp_path / "new", settings={"embedder": "lexical"})
    knowledge.remember(new, "the boat is blue")
    assert take(new.brain.shelf, exported).refused == []
    new.brain.close()
    assert {"the boat is blue", LATER} <= holding(new.brain.shelf)


@pytest.mark.parametrize("store", STORES)
def test_what_is_forgotten_is_in_no_backup(tmp_path, store):
    place = workspace(tmp_path, store)
    fractal = Fractal(tmp_path)
    forgetting = Forgetting(fractal.brain, fractal.workspace.state)
    assert not {*backups(place)} & {*forgetting.look(Request("no such words")).strays}
    assert {*backups(place)} <= {*forgetting.look(Request("spare key")).strays}
    forgetting.do(Request("spare key"))
    assert backups(place) == []


def test_a_broken_file_of_an_old_memory_is_migrated_after_it_was_saved(tmp_path):
    from runtime.memory.store.sqlite import salvage

    place = workspace(tmp_path)
    with place.open("r+b") as file:
        file.seek(60_000)
        file.write(b"\0" * 4_096)
    salvage(place)
    with closing(open_shelf("sqlite", place.parent)) as shelf:
        assert shelf.keeper.version() == 1
    assert opened(tmp_path).keeper.version() == FORMAT


def test_a_file_in_the_way_is_named(tmp_path):
    place = workspace(tmp_path)
    (place.parent / "migration.lock").symlink_to(tmp_path / "nowhere" / "at all")
    with pytest.raises(StorageError, match=r"migration\.lock"):
        opened(tmp_path)
