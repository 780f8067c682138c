"""Every change of the system is journaled, whoever made it, and survives a crash of its process."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lanes import every, pause
from workshop_place import Place

from bench.crash import faults
from kernel.errors import FractalError, StorageError
from runtime.api.fractal import shipped_system
from runtime.evolution.files import File
from runtime.evolution.journal import Journal
from runtime.workspace.workspace import Workspace

A, B, C = "tools/a/pattern.md", "tools/a/tool.py", "tools/a/more.txt"


def journal(place: Place) -> Journal:
    return Journal(Workspace.find(place.folder, shipped_system()))


def change(place: Place, kind: str = "admitted") -> None:
    """Replace one file and make it executable, add one, remove one."""
    files = {A: File(b"after", True), B: File(b"new", True), C: None}
    journal(place).change(kind, "tools/a", files, "run abc", "because", run="abc", step="x:1", model="m")


def before(place: Place) -> dict[str, str]:
    place.put(A, "before")
    place.put(C, "more")
    journal(place).notice()
    return place.files()


AFTER = {A: "after", B: "new"}


def test_a_change_is_recorded_with_author_run_step_model_and_reason(place: Place):
    before(place)
    change(place)
    assert place.files() == AFTER
    assert os.access(place.system / B, os.X_OK)
    entry = place.entries[-1]
    fields = (entry.kind, entry.unit, entry.author, entry.run, entry.step, entry.model, entry.reason)
    assert fields == ("admitted", "tools/a", "run abc", "abc", "x:1", "m", "because")
    assert sorted(each.path for each in entry.files) == [C, A, B]


def test_a_change_that_changes_nothing_is_no_entry(place: Place):
    before(place)
    count = len(place.entries)
    assert journal(place).change("admitted", "tools/a", {A: File(b"before")}, "person") is None
    assert len(place.entries) == count


def test_where_there_is_no_system_of_its_own_nothing_is_made(place: Place):
    assert journal(place).notice() == []
    assert not place.state.exists()


def test_what_a_person_edits_adds_and_removes_is_recorded_as_theirs_with_the_old_text(place: Place):
    before(place)
    place.put(A, "edited")
    place.put("phases/turn.md", "mine")
    (place.system / C).unlink()
    written = journal(place).notice()
    assert [(each.kind, each.unit, each.author) for each in written] == [
        ("edited", "phases/turn.md", "person"),
        ("edited", "tools/a", "person"),
    ]
    text = journal(place).diff(written[1])
    for line in ("-before", "+edited", "-more"):
        assert line in text.splitlines()
    assert journal(place).notice() == []


def test_an_edit_of_the_same_size_within_the_same_instant_is_noticed(place: Place):
    path = place.put(A, "one")
    journal(place).notice()
    stamps = path.stat()
    path.write_text("two")
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert [each.kind for each in journal(place).notice()] == ["edited"]


def test_what_editors_and_interpreters_leave_is_no_change(place: Place):
    before(place)
    place.put("tools/a/.pattern.md.swp", "x")
    place.put("tools/a/pattern.md~", "x")
    place.put("tools/a/__pycache__/tool.cpython-311.pyc", "x")
    assert journal(place).notice() == []


def test_an_operation_and_the_program_beside_it_are_one_unit(place: Place):
    before(place)
    place.put("operations/x.md", "x")
    place.put("operations/x.py", "x")
    assert [each.unit for each in journal(place).notice()] == ["operations/x.md"]


def test_a_change_that_is_made_while_a_person_edits_leaves_the_persons_file(place: Place):
    before(place)
    place.put(A, "edited")
    change(place)
    assert place.kinds()[-2:] == [("edited", "tools/a"), ("admitted", "tools/a")]
    assert place.files() == AFTER
    journal(place).rollback(place.entries[-1].id)
    assert place.files()[A] == "edited"


# ---- a process that dies ----


def die(place: Place, at: int, where: str, act: Callable[[Place], None]) -> int:
    """Run `act` in a process that dies at its `at`th call that changes a file; return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            log = os.open(os.devnull, os.O_WRONLY)
            faults.install()
            faults.arm(at, where, log, every=False)
            act(place)
            os._exit(0)
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def consistent(place: Place) -> None:
    """Assert that the files are as the journal says, and that no half-written file is left."""
    marks: dict[str, str] = {}
    for entry in place.entries:
        for each in entry.files:
            assert marks.get(each.path, "") == each.before, entry
            marks[each.path] = each.after
    assert [entry.id for entry in place.entries] == list(range(1, len(place.entries) + 1))
    holds = {path: journal(place).blobs.file(mark) for path, mark in marks.items() if mark}
    assert {path: file.raw.decode() for path, file in holds.items() if file} == place.files()
    assert place.crashed() == []


@pytest.mark.parametrize("where", ["before", "half", "after"])
def test_a_death_at_any_moment_of_a_change_leaves_all_of_it_or_nothing(tmp_path: Path, where: str):
    seen: set[bool] = set()
    for at in range(1, 200, every(6)):
        place = Place(tmp_path / f"{where}-{at}")
        (place.folder / ".fractal" / "state").mkdir(parents=True)
        files_before = before(place)
        code = die(place, at, where, change)
        journal(place).notice()
        assert place.files() in (files_before, AFTER), (at, place.files())
        assert all(entry.author != "person" for entry in place.entries), at
        consistent(place)
        seen.add(place.files() == AFTER)
        if code == 0:
            break
        assert code == faults.EXIT
        change(place)
        assert place.files() == AFTER
    else:
        pytest.fail("it never came to its end")
    assert seen == {True, False}
    assert at > 30


@pytest.mark.parametrize("where", ["before", "half", "after"])
def test_a_death_while_an_edit_is_noticed_loses_nothing(tmp_path: Path, where: str):
    for at in range(1, 200, every(6)):
        place = Place(tmp_path / f"{where}-{at}")
        (place.folder / ".fractal" / "state").mkdir(parents=True)
        before(place)
        place.put(A, "edited")
        code = die(place, at, where, lambda place: journal(place).notice() and None)
        journal(place).notice()
        assert place.kinds() == [("found", ""), ("edited", "tools/a")]
        consistent(place)
        if code == 0:
            break
    assert at > 8


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_death_during_the_very_first_change_too(tmp_path: Path, where: str):
    for at in range(1, 200, every(6)):
        place = Place(tmp_path / f"{where}-{at}")
        (place.folder / ".fractal" / "state").mkdir(parents=True)
        code = die(place, at, where, change)
        journal(place).notice()
        assert place.files() in ({}, AFTER)
        assert place.kinds() in ([], [("admitted", "tools/a")])
        consistent(place)
        if code == 0:
            break
    assert place.files() == AFTER


def test_a_death_during_a_rollback_is_finished_by_the_next_start(tmp_path: Path):
    for at in range(1, 200, every(6)):
        place = Place(tmp_path / str(at))
        (place.folder / ".fractal" / "state").mkdir(parents=True)
        files_before = before(place)
        change(place)
        code = die(place, at, "before", lambda place: journal(place).rollback(2) and None)
        journal(place).notice()
        assert place.files() in (files_before, AFTER)
        consistent(place)
        if code == 0:
            break
    assert place.files() == files_before


def test_a_torn_line_and_a_lost_memory_are_made_good(place: Place):
    before(place)
    change(place)
    whole = place.journal.path.read_bytes()
    place.journal.path.write_bytes(whole + whole[:40])
    (place.state / "known.json").write_text("{torn")
    place.put(A, "edited meanwhile")
    assert [each.kind for each in journal(place).notice()] == ["edited"]
    consistent(place)


def test_lost_content_is_reported_with_its_file(place: Place):
    before(place)
    change(place)
    for path in (place.state / "blobs").iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(FractalError, match=r"blobs/.*restore it from a backup"):
        journal(place).rollback(2)
    assert place.files() == AFTER


# ---- two at once, a full disk ----


def _many(folder: Path, who: int) -> None:
    own = Journal(Workspace.find(folder, shipped_system()), fsync=False)
    for n in range(15):
        own.change("added", f"tools/t{who}", {f"tools/t{who}/{n}.md": File(b"x")}, "person", f"{who}.{n}")


def test_processes_at_once_write_one_journal(place: Place):
    spawn = multiprocessing.get_context("fork")
    working = [spawn.Process(target=_many, args=(place.folder, who)) for who in range(4)]
    for each in working:
        each.start()
    for each in working:
        each.join(60)
    assert [each.exitcode for each in working] == [0] * 4
    consistent(place)
    assert len(place.entries) == 60


@pytest.mark.night
def test_a_process_killed_among_others_holds_nobody_up(place: Place):
    code = (
        "import sys; from pathlib import Path; from runtime.workspace.workspace import Workspace\n"
        "from runtime.evolution.journal import Journal; from runtime.evolution.files import File\n"
        f"j = Journal(Workspace.find(Path({str(place.folder)!r}), Path({str(shipped_system())!r})))\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1; j.change('added', 'tools/k', {f'tools/k/{n % 7}.md': File(b'x%d' % n)}, 'person')\n"
    )
    for seconds in (0.25, 0.32, 0.41):
        worker = subprocess.Popen([sys.executable, "-c", code])
        pause(seconds)
        change(place, kind=f"k{seconds}")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        journal(place).notice()
        consistent(place)
        change(place)
        consistent(place)


def test_on_a_full_disk_nothing_is_changed_and_the_error_says_so(place: Place):
    files_before = before(place)
    large = {A: File(os.urandom(300_000)), B: File(b"x")}

    def fill(place: Place) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            journal(place).change("admitted", "tools/a", large, "person")
        except StorageError as error:
            os._exit(7 if "cannot be written" in str(error) and "retry" in str(error) else 8)

    assert die(place, 0, "before", fill) == 7
    journal(place).notice()
    assert place.files() == files_before
    consistent(place)


# ---- taking back ----


def test_a_rollback_puts_back_what_stood_before_and_can_be_rolled_back(place: Place):
    files_before = before(place)
    change(place)
    back = journal(place).rollback(2)
    assert place.files() == files_before
    assert (back.kind, back.of, back.author) == ("rollback", 2, "person")
    assert not os.access(place.system / A, os.X_OK)
    journal(place).rollback(back.id)
    assert place.files() == AFTER
    consistent(place)


def test_a_rollback_past_later_changes_wants_force_and_names_them(place: Place):
    files_before = before(place)
    change(place)
    place.put(A, "edited later")
    with pytest.raises(FractalError, match=r"entry 3 \(edited by person\)"):
        journal(place).rollback(2)
    assert place.files()[A] == "edited later"
    journal(place).rollback(2, force=True)
    assert place.files() == files_before


def test_the_history_of_a_unit_shows_nothing_of_others(place: Place):
    place.put("tools/b/pattern.md", "other")
    before(place)
    change(place)
    found = journal(place).about("a")
    assert [entry.kind for entry in found] == ["found", "admitted"]
    assert {c.path for entry in found for c in entry.files} == {A, B, C}
    assert [entry.kind for entry in journal(place).about("b")] == ["found"]


def test_an_emptied_folder_is_gone(place: Place):
    before(place)
    journal(place).change("added", "tools/b", {"tools/b/x/y.md": File(b"y")}, "person")
    journal(place).rollback(2)
    assert not (place.system / "tools" / "b").exists()


def test_the_commands_tell_show_and_take_back(place: Place):
    before(place)
    place.put(A, "edited\n")
    log = place.command("system", "log", "--json")
    assert [(each["id"], each["kind"]) for each in json.loads(log.out)] == [(2, "edited"), (1, "found")]
    assert "+edited" in place.command("system", "diff", "2").out
    assert "+edited" in place.command("system", "diff", "a").out
    plain = place.command("system", "log", "tools/a").out
    assert "person" in plain and "+1 −1" in plain
    assert "entry 9" in place.command("system", "rollback", "9").err
    ran = place.command("system", "rollback", "2", "--json")
    assert (ran.exit, json.loads(ran.out)["of"]) == (0, 2)
    assert place.files()[A] == "before"
    missing = place.command("system", "diff", "nothing")
    assert (missing.exit, "nothing about nothing" in missing.err) == (2, True)
