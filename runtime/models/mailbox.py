"""A responder made of files: each ask is a markdown file, each answer a file placed beside it.

Open asks are in `state/mailbox/`; answered ones move to `state/mailbox/answered/`. An ask has the same name
after a crash, so an answer that arrived in the meantime is used. A run that stops waiting removes its ask.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from pathlib import Path

from kernel.asking.messages import prompt_tokens
from kernel.asking.responder import Ask, Reply, Responder, Tier, Usage, Waits
from kernel.document.escaping import to_json
from kernel.errors import ConfigurationError, ProviderError, ReplyError
from runtime.models.dialects import new_from
from runtime.models.json_form import conversation, read_turn
from runtime.text.json_reader import read_reply

SUFFIXES = (".reply.json", ".reply.md")
UNREADABLE = 3.0  # seconds after which an unchanged answer is used even if it does not parse


class Mailbox(Responder):
    """Asks as files in `folder`, answers as files beside them."""

    patient = True  # waiting for an answer does not count as the run's time

    def __init__(
        self,
        folder: Path,
        name: str = "mailbox",
        tier: Tier = "worker",
        *,
        wait: float | None = None,
        poll: float = 0.1,
        settle: float = UNREADABLE,
        context: int | None = None,
    ) -> None:
        """Use that folder.

        wait: seconds to wait for an answer; None waits for ever.
        poll: seconds between two looks at the folder.
        settle: seconds after which an unchanged answer is used even if it does not parse.
        """
        self.folder = folder
        self.name = name
        self.tier: Tier = tier
        self.wait, self.poll, self.settle = wait, poll, settle
        self.context = context

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Write the ask and wait for its answer; remove the ask if the wait ends without one."""
        request = self.folder / f"{slug(ask.key)}.md"
        # a process may have moved the answer away, and crashed before it was logged
        moved = _answers(request.parent / "answered" / request.name)
        text = moved[0].read_text("utf-8", "replace") if moved else None
        if text is None:
            self._write(request, ask)
            try:
                text = await self._wait(request)
            finally:
                with suppress(OSError):
                    request.unlink()
        used = Usage(prompt_tokens(ask, self.count), self.count(text))
        return Reply(read_turn(text) if ask.wants_turn else text, self.name, used)

    def _write(self, request: Path, ask: Ask) -> None:
        try:
            (self.folder / "answered").mkdir(parents=True, exist_ok=True)
            temporary = request.with_name(f".{request.name}.tmp")
            temporary.write_bytes(ask_file(ask, request).encode("utf-8", "surrogatepass"))
            temporary.replace(request)
        except OSError as error:
            raise ConfigurationError(f"{request}: the ask cannot be written: {error.strerror}") from None

    async def _wait(self, request: Path) -> str:
        end = time.monotonic() + (self.wait or float("inf"))
        last_state: object = None  # the state of an incomplete answer at its last change
        since = 0.0
        while True:
            now = time.monotonic()
            text, state, path = _read_answer(request)
            if state != last_state:
                last_state, since = state, now
            if text and (_is_whole(text) or now - since >= self.settle):
                self._put_away(request, path)
                return text
            if now >= end:
                raise ProviderError(f"{self.name}: no answer to {request} within {self.wait:.0f} s")
            await asyncio.sleep(min(end - now, self.poll))

    def _put_away(self, request: Path, answer: Path) -> None:
        for path in (answer, request):
            with suppress(FileNotFoundError):  # it was removed in the meantime
                path.replace(request.parent / "answered" / path.name)


def slug(key: str) -> str:
    """The file name of an ask: its key without characters that file systems forbid."""
    return re.sub(r"[^\w.-]+", ".", key, flags=re.ASCII).lstrip(".")[:200]


def withdraw(folder: Path, run: str) -> None:
    """Remove the open asks of a run without a process, such as one that was killed."""
    head = f"\nrun: {to_json(run)}\n"
    for request in folder.glob(f"*{run}*.md"):
        if not request.name.endswith(SUFFIXES):
            with suppress(OSError):
                if head in request.read_text("utf-8", "replace").partition("\n---\n")[0] + "\n":
                    request.unlink()


def ask_file(ask: Ask, request: Path) -> str:
    """The file of an ask: a head for programs, the exact prompt, and how to answer."""
    prompt = _conversation(ask) if ask.messages else f"{ask.system}\n\n{ask.user}"
    head = {
        "format": 1,
        "key": ask.key,
        "loop": ask.loop,
        "run": ask.run,
        "level": ask.document.meta.level,
        "phase": ask.part,
        "attempt": ask.attempt,
        "step": ask.step,
        "turn": ask.turn,
        "form": ask.words,
        "schema": dict(ask.schema),
        "max_tokens": ask.max_tokens,
        "prompt_characters": len(prompt),
    }
    lines = "\n".join(f"{name}: {to_json(value)}" for name, value in head.items())
    stem = request.name.removesuffix(".md")
    return (
        f"---\n{lines}\n---\n{prompt}\n\n---\n"
        f"To answer, put one JSON object into `{stem}.reply.json` (or `{stem}.reply.md`) beside this file.\n"
        "Write it elsewhere and move it here, or write it in place: an incomplete answer is not read yet.\n"
    )


def _conversation(ask: Ask) -> str:
    """The messages in the form without declared tools; what no earlier ask has shown comes last."""
    written = conversation(ask.messages, ask.tools)
    new, last = new_from(written), len(written)
    lines = [
        f"<!-- {number} of {last}, {each['role']}{', new' if number > new else ''} -->\n\n{each['content']}"
        for number, each in enumerate(written, 1)
    ]
    return "\n\n".join(lines)


def _answers(request: Path) -> list[Path]:
    stem = request.name.removesuffix(".md")
    return [path for suffix in SUFFIXES if (path := request.with_name(stem + suffix)).is_file()]


def _read_answer(request: Path) -> tuple[str, object, Path]:
    """The text of the answer (empty if there is none), a state that changes with the file, and its path."""
    for path in _answers(request):
        with suppress(OSError):  # it was moved just now
            stat = path.stat()
            if text := path.read_text("utf-8", "replace").strip():
                return text, (path, stat.st_mtime_ns, stat.st_size), path
    return "", None, request


def _is_whole(text: str) -> bool:
    try:
        read_reply(text)
    except ReplyError:
        return False
    return True
