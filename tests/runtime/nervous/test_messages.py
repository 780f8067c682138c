"""The store of messages: append-only, idempotent, quick however long the history is, for many processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crashing import crashes
from lanes import every, until
from warm import Process

from kernel.document.escaping import read_block
from kernel.errors import StorageError, UsageError
from runtime.memory.store import open_shelf
from runtime.nervous.gate import resolve
from runtime.nervous.messages import DECISIONS, Message, Messages, OpenThread, named, thread_of

Store = Callable[..., Messages]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened: list[Messages] = []

    def make(kind: str = "sqlite") -> Messages:
        opened.append(Messages(open_shelf(kind, tmp_path / "memory", fsync=False), tmp_path / "messages"))
        return opened[-1]

    yield make
    for each in opened:
        each.shelf.close()


def ask(messages: Messages, *about: str, run: str = "7f3kq2") -> Message:
    return messages.write(*about, type="proposal", run=run, text="a plan", status="open")


def test_a_thread_is_open_until_its_outcome(store: Store) -> None:
    messages = store()
    asked = ask(messages, "one")
    other = ask(messages, "two", run="aaaaaa")
    reply = messages.write(type="approve", tier="human", stream="guidance", in_reply_to=asked.id)
    late = messages.write(type="observation", in_reply_to=reply.id)
    assert thread_of(late.id) == asked.id == late.in_reply_to
    assert [[each.id for each in thread] for thread in messages.open()] == [
        [asked.id, reply.id, late.id],
        [other.id],
    ]
    messages.write("end", type="outcome", in_reply_to=asked.id)
    assert [thread.id for thread in messages.threads()] == [other.id]
    assert [each.type for each in messages.thread(asked.id)] == [
        "proposal",
        "approve",
        "observation",
        "outcome",
    ]
    messages.write(type="reject", tier="human", in_reply_to=asked.id)
    assert [thread.id for thread in messages.threads()] == [other.id]


def test_the_same_message_again_changes_nothing(store: Store) -> None:
    messages = store()
    first = ask(messages, "one")
    assert ask(messages, "one") == first and len(messages.all()) == 1
    assert first.id == named("one")
    text = next(messages.folder.glob("*.md")).read_text()
    assert text.count(first.id) == 1


def test_a_missing_index_is_made_of_the_messages(store: Store) -> None:
    messages = store()
    asked = ask(messages, "one")
    messages.write("taken", in_reply_to=asked.id, run="bbbbbb", data={"taken": True})
    closed = ask(messages, "two")
    messages.write("end", type="outcome", in_reply_to=closed.id)
    before = messages.threads()
    assert [(each.id, each.run, each.taken) for each in before] == [(asked.id, "bbbbbb", True)]
    for kind in ("open-thread", "open-thread-index"):
        for row in list(messages.shelf.rows(kind)):
            with messages.shelf.transaction():
                messages.shelf.keeper.erase(kind, [row.id])
    assert messages.threads() == before
    messages.render()
    assert messages.threads() == before


def test_a_thread_is_found_by_the_first_letters_of_its_id(store: Store) -> None:
    messages = store()
    asked = ask(messages, "one")
    assert messages.find(asked.id[:8]).id == messages.find(f"{asked.id}.reply").id == asked.id
    for name, why in (("", "no open message"), (".", "no open message"), ("zz", "fractal messages --open")):
        with pytest.raises(UsageError, match=why):
            messages.find(name)
    others = [ask(messages, str(number)) for number in range(40)]
    first = next(each.id[0] for each in others if sum(o.id[0] == each.id[0] for o in others) > 1)
    with pytest.raises(UsageError, match="give more letters"):
        messages.find(first)


@pytest.mark.night
@pytest.mark.alone
def test_history_costs_nothing(store: Store) -> None:
    messages = store()
    old: list[Message] = []
    for id in (named(str(at)) for at in range(3_400)):
        old.append(Message(id=id, type="proposal", at="2026-11-20T10:00:00.000Z"))
        old.append(Message(id=f"{id}.a", type="approve", in_reply_to=id))
        old.append(Message(id=f"{id}.b", type="outcome", in_reply_to=id))
    messages.shelf.put(*old)
    messages.threads()  # makes the index
    asked = [ask(messages, f"open {at}") for at in range(5)]

    def best(act: Callable[[], object]) -> float:
        times: list[float] = []
        for _ in range(20):
            began = time.perf_counter()
            act()
            times.append(time.perf_counter() - began)
        return min(times)

    empty = best(lambda: messages.shelf.get(Message, "none"))
    assert best(messages.open) < 0.005 + 40 * empty
    assert best(lambda: messages.thread(asked[0].id)) < 0.001 + 10 * empty
    assert best(lambda: messages.thread(old[0].id)) < 0.02 + 40 * empty


def test_two_processes_write_at_once(store: Store, tmp_path: Path) -> None:
    messages = store()
    asked = ask(messages, "one")
    write = (
        "import sys; from pathlib import Path; from runtime.memory.store import open_shelf\n"
        "from runtime.nervous.messages import Messages\n"
        "folder, who, thread = Path(sys.argv[1]), sys.argv[2], sys.argv[3]\n"
        "messages = Messages(open_shelf('sqlite', folder / 'memory', fsync=False), folder / 'messages')\n"
        "for number in range(40):\n"
        "    messages.write(type='observation', text=who, in_reply_to=thread)\n"
        "    messages.write('shared', str(number), type='observation', text='once', in_reply_to=thread)\n"
    )
    writers = [
        Process([sys.executable, "-c", write, str(tmp_path), who, asked.id], cwd=Path.cwd())
        for who in ("first", "second")
    ]
    assert [each.wait(60) for each in writers] == [0, 0]
    texts = [each.text for each in messages.thread(asked.id)]
    assert {text: texts.count(text) for text in ("first", "second", "once")} == dict.fromkeys(
        ("first", "second", "once"), 40
    )
    shown = "".join(path.read_text() for path in messages.folder.glob("*.md"))
    assert all(shown.count(f"`{each.id}`, ") + shown.count(f"`{each.id}`\n") >= 1 for each in messages.all())


REPLIES = {
    ("terminal", ""): ("approve", "veto", "approve", "approve"),
    ("page", ""): ("reject", "approve", "approve", "nudge"),
    ("oversight", "large"): ("approve", "approve", "reject", "veto"),
}
"""What two humans and oversight reply to every first, second … of four threads."""
HELD = ("reject", "veto", "approve", "nudge")
WRITER = """
import sys
from pathlib import Path
from runtime.workspace.deciders import Decider
from runtime.memory.store import open_shelf
from runtime.nervous.messages import Messages
folder, by, kinds = Path(sys.argv[1]), Decider(*sys.argv[2:4]), sys.argv[4:]
messages = Messages(open_shelf('sqlite', folder / 'memory', fsync=False), folder / 'messages')
print('ready', flush=True)
sys.stdin.readline()
for thread in messages.threads()[:: -1 if by.name else 1]:
    first = messages.get(thread.id)
    kind = kinds[int(first.text) % len(kinds)]
    messages.guide(first, type=kind, text=str(by), by=by)
    messages.write(first.id, 'once', type='observation', in_reply_to=first.id, text='once')
"""


def test_two_humans_and_oversight_write_at_once_in_200_threads(store: Store, tmp_path: Path) -> None:
    messages = store()
    asked = [messages.write(type="proposal", text=str(n), status="open") for n in range(200)]
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [
        Process([*command, *by, *kinds], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for by, kinds in REPLIES.items()
    ]
    for each in writers:
        assert each.stdout and each.stdout.readline()
    for each in writers:
        assert each.stdin
        each.stdin.write(b"\n")
        each.stdin.flush()
    assert [each.wait(60) for each in writers] == [0, 0, 0]
    for n, first in enumerate(asked):
        thread = messages.thread(first.id)
        said = [(each.tier, each.type) for each in thread if each.type in DECISIONS]
        replied = [kinds[n % len(kinds)] for kinds in REPLIES.values()]
        assert sorted(said) == sorted(zip(("human", "human", "oversight"), replied, strict=True))
        assert sum(each.text == "once" for each in thread) == 1
        held = resolve(thread)
        assert held and (held.tier, held.type) == ("human", HELD[n % len(HELD)])
    (shown,) = (path.read_text() for path in messages.folder.glob("*.md"))
    assert all(f"`{each.id}`" in shown for each in messages.all())


def test_what_a_crash_leaves_is_repaired(store: Store) -> None:
    """The record and its index are written at once; the markdown is made anew from the records."""
    messages = store("files")
    asked = ask(messages, "one")
    for at, where in enumerate(("before", "half", "after"), 1):
        while crashes(lambda: _reply(store("files"), asked.id), at, where):
            at += 3 * every(3)
            messages = store("files")
            replies = messages.shelf.pick(OpenThread, [asked.id])[0].replies
            assert replies == [each.id for each in messages.all() if each.in_reply_to]
            _reply(messages, asked.id)
            assert len(messages.thread(asked.id)) == 2
            messages.render()
            text = next(messages.folder.glob("*.md")).read_text()
            assert all(f"`{each.id}`" in text for each in messages.all())
            with messages.shelf.transaction():
                messages.shelf.delete(Message, *replies, messages.thread(asked.id)[-1].id)
            messages.render()
        assert at > 5


def _reply(messages: Messages, id: str) -> Message:
    return messages.write("reply", type="approve", tier="human", in_reply_to=id)


def test_a_killed_writer_leaves_all_or_nothing(store: Store, tmp_path: Path) -> None:
    write = (
        "import sys; from pathlib import Path; from runtime.memory.store import open_shelf\n"
        "from runtime.nervous.messages import Messages\n"
        "folder = Path(sys.argv[1])\n"
        "messages = Messages(open_shelf('sqlite', folder / 'memory', fsync=False), folder / 'messages')\n"
        "print('ready', flush=True)\n"
        "while True: messages.write(type='proposal', text='x' * 1000, status='open')\n"
    )
    writer = Process([sys.executable, "-c", write, str(tmp_path)], cwd=Path.cwd(), stdout=subprocess.PIPE)
    assert writer.stdout and writer.stdout.readline()
    shown = tmp_path / "messages"
    until(lambda: sum(each.stat().st_size for each in shown.glob("*.md")) > 5_000)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    messages = store()
    assert {each.id for each in messages.all()} == {each.id for each in messages.threads()} != set()


def test_a_broken_record_is_skipped_and_reported(store: Store, tmp_path: Path) -> None:
    messages = store()
    asked, other = ask(messages, "one"), ask(messages, "two")
    base = sqlite3.connect(tmp_path / "memory" / "brain.sqlite3")
    with base:
        base.execute("UPDATE records SET body = '{' WHERE kind = 'message' AND id = ?", (asked.id.encode(),))
    base.close()
    assert [[each.id for each in thread] for thread in messages.open()] == [[other.id]]
    assert [each.id for each in messages.all()] == [other.id]
    assert asked.id in next(iter(messages.shelf.faults))


def test_markdown_that_cannot_be_written_loses_no_message(store: Store) -> None:
    messages = store()
    messages.folder.write_text("a file in the way")
    asked = ask(messages, "one")
    assert messages.get(asked.id) == asked
    messages.folder.unlink()
    assert asked.id in messages.render()[0].read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
def test_a_full_disk_is_named_and_nothing_is_written(store: Store) -> None:
    messages = store()
    asked = ask(messages, "one")
    base = messages.shelf.keeper.base
    (pages,) = base.execute("PRAGMA page_count").fetchone()
    base.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match="free space"):
        messages.write(type="approve", tier="human", in_reply_to=asked.id, text="x" * 1_000_000)
    base.execute("PRAGMA max_page_count = 1000000")
    assert [each.id for each in messages.thread(asked.id)] == [asked.id]
    assert messages.write(type="approve", tier="human", in_reply_to=asked.id)


def test_hostile_text_stays_text_in_the_markdown(store: Store) -> None:
    messages = store()
    messages.write(type="task", text="do\n# Messages of 2000-01-01\n\ud800", sender="x", status="open")
    messages.write(type="observation", at="../../elsewhere", sender="a\n# b")
    (undated, path) = sorted(messages.render(), key=lambda each: each.name != "undated.md")
    assert undated.parent == path.parent == messages.folder and "\n# b" not in undated.read_text()
    text = path.read_text("utf-8")
    assert "~~~text esc\ndo\n# Messages of 2000-01-01\n\\u{d800}\n~~~" in text


@pytest.mark.parametrize("text", ["a\x1b[31mb\x00", "<img src=x>", "~~~\n# b", "a\u202eb", "a\x0b# b"])
def test_markdown_shows_any_text_as_it_is(store: Store, text: str) -> None:
    messages = store()
    said = messages.write(type="proposal", text=text, sender=text, data={"task": text}, status="open")
    (path,) = messages.folder.glob("*.md")
    lines = path.read_text("utf-8").split("\n")
    assert all(map(str.isprintable, lines))
    start = next(n for n, line in enumerate(lines) if line.startswith("~~~"))
    assert read_block(lines, start, "messages") == (text, len(lines) - 3)
    assert messages.get(said.id) == said and said.text == text


@pytest.mark.parametrize("run", ["../..", "a\x00b", "a" * 5_000])
def test_a_message_whose_run_is_no_name_of_a_folder_is_refused(store: Store, run: str) -> None:
    messages = store()
    with pytest.raises(ValueError, match="run"):
        ask(messages, run=run)
    assert messages.all() == []
