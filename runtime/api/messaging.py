"""Messages to agents and runs: a task, a reply by the id of the message that it replies to."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.document.model import root_id
from kernel.errors import UsageError
from kernel.store.files import FileStore
from runtime.api.spans import moment
from runtime.workspace.answering import KINDS
from runtime.workspace.deciders import Decider, why_not_approver
from runtime.workspace.inbox import Inbox, leave
from runtime.workspace.question import asked_steps
from runtime.workspace.runs import open_question, unfinished
from runtime.workspace.workspace import DEFAULT

if TYPE_CHECKING:
    from kernel.document.model import Document
    from runtime.api.fractal import Fractal
    from runtime.nervous.messages import Message, OpenThread
    from runtime.nervous.queue import Queued


def listed(fractal: Fractal, *, run: str = "", only_open: bool = False, since: str = "") -> list[Message]:
    """The messages, oldest first: of a run, those without a reply, those since a time.

    With `only_open`, queued tasks come last, in the order in which a beat takes them up.
    """
    run = fractal.find(run) if run else ""
    begin = moment(since, fractal.memory.clock()) if since else ""
    if not fractal.memory.there:
        return []
    messages = fractal.nerves.messages
    if only_open:
        from runtime.nervous.gate import resolve

        turns = {each.message.id: each.turn for each in queued(fractal)}
        found = [thread[0] for thread in messages.open() if resolve(thread) is None]
        found.sort(key=lambda each: turns.get(each.id, -inf))
    else:
        found = messages.all(**({"run": run} if run else {}))
    return [each for each in found if run in ("", each.run) and each.at >= begin]


def queued(fractal: Fractal) -> list[Queued]:
    """The tasks that nobody has taken up, next first."""
    if not fractal.memory.there:
        return []
    from runtime.nervous.messages import Message
    from runtime.nervous.queue import ordered

    messages = fractal.nerves.messages
    ids = [each.id for each in messages.threads() if each.type == "task" and not each.taken]
    return ordered(messages.shelf.pick(Message, ids), fractal.memory, fractal.config)


def places(fractal: Fractal) -> dict[str, str]:
    """By the id of a queued task: its place, from 1, and what that is due to."""
    return {each.message.id: f"{place}: {each}" for place, each in enumerate(queued(fractal), 1)}


def send(fractal: Fractal, text: str, to: str, by: Decider, priority: str = "normal") -> Message:
    """Write a task for an agent, with what the sender's settings let wait for approval if it is a client."""
    from runtime.nervous.messages import tier_of
    from runtime.nervous.queue import STEPS

    if priority not in STEPS:
        raise UsageError(f"{priority} is no priority; choose from {', '.join(STEPS)}")
    if not text.strip():
        raise UsageError("the task is empty; say what is to be done")
    _refuse_long(text)
    refuse_forgetful(fractal)
    fractal.anew(agent=to or DEFAULT)  # raises for a wrong name
    fractal.workspace.make()
    data = {"by": by.values} | ({"approve": list(fractal.config.approve)} if by.kind == "client" else {})
    data |= {"priority": priority} if priority != "normal" else {}
    return fractal.nerves.messages.write(
        stream="guidance",
        type="task",
        tier=tier_of(by),
        sender=by.name or by.kind,
        to=to or DEFAULT,
        text=text.strip(),
        status="open",
        data=data,
    )


def reply(fractal: Fractal, message: str, kind: str, text: str, by: Decider) -> Message:
    """Reply to an open message of a run; the run takes the reply that holds when it goes on."""
    from runtime.nervous.messages import REPLIES, Message
    from runtime.nervous.nerves import replies_to

    refuse_forgetful(fractal)
    thread = fractal.nerves.messages.find(message)
    if kind not in REPLIES:
        raise UsageError(f"{kind} is no reply; choose from {', '.join(REPLIES)}")
    _refuse_long(text)
    if kind in ("answer", "nudge") and not text.strip():
        raise UsageError(f"the {kind} is empty; say what you mean")
    elsewhere = fractal.nerves.messages.is_elsewhere(thread)
    document = None if elsewhere else _waiting(fractal, thread)
    if kind not in (suits := replies_to(thread.type)):
        raise UsageError(f"{thread.id} is a {thread.type}; its replies are {', '.join(suits)}")
    if document is None:  # whether the sender may approve is seen where the run is
        first = fractal.nerves.messages.get(thread.id) or Message(id=thread.id)
        return fractal.nerves.messages.guide(first, type=kind, text=text.strip(), by=by)
    steps, trusted = asked_steps(document), fractal.config.trusted_clients
    if kind == "approve" and (why := why_not_approver(by, steps, trusted)):
        raise UsageError(f"{why}\napprove it at a terminal: fractal messages reply {thread.id[:8]} approve")
    return fractal.nerves.told(document, kind, by, {"text": text.strip()})


def _waiting(fractal: Fractal, thread: OpenThread) -> Document:
    """The document that waits for a reply in this thread. Raises `UsageError`."""
    begun = thread.run and fractal.workspace.has(thread.run)
    for document in unfinished(FileStore(fractal.workspace.runs / thread.run)) if begun else ():
        if open_question([document]) and fractal.nerves.thread_for(document) == thread.id:
            return document
    raise UsageError(f"the {thread.type} {thread.id} waits for no reply now")


def weigh(fractal: Fractal, folder: Path) -> None:
    """Before a run goes on: of the replies that it has got, leave the one that holds in its inbox."""
    inbox = Inbox(folder)
    left = list(inbox.messages(KINDS))
    if not left or not fractal.messages_folder.is_dir():
        return
    document = open_question(unfinished(FileStore(folder)))
    if document is None:
        return
    root, loop = root_id(folder.name), document.meta.id
    mine = [(path, each["kind"]) for path, each in left if (each.get("loop") or root) == loop]
    found = fractal.nerves.resolved(document) if mine else None
    if found and found.type != mine[0][1]:
        from runtime.nervous.nerves import said as told

        said, by = told(found)
        leave(fractal, folder.name, said.kind, by, fractal.config.trusted_clients, said.values)
        for path, _ in mine:
            inbox.taken(path)


def _refuse_long(text: str) -> None:
    from runtime.nervous.messages import LONGEST

    if len(text) > LONGEST:
        raise UsageError(
            f"the text has {len(text):,} characters, and a message at most {LONGEST:,}; "
            "write it to a file, and say where that is"
        )


def refuse_forgetful(fractal: Fractal) -> None:
    """Raise `UsageError` where nothing is remembered: messages lie in the store of memory."""
    if not fractal.config.remember:
        raise UsageError("messages need memory; set `remember: true`")
