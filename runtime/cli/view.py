"""Watching a run: a live tree on a terminal, plain lines in a pipe, one JSON event a line, or nothing.

Progress goes to standard error; only `--json` writes events to standard output.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from kernel.events import Event
from runtime.cli.words import call, elide, line, money, seconds, tokens

_PHASES = {"fused": "UNDERSTAND and PLAN", "atomic": "DO"}
_WORDS = {"warning": "warning", "stale": "stale", "system_changed": "system"}


class View(Protocol):
    """Whoever watches a run; used as a context around it."""

    def __call__(self, event: Event) -> None:
        """Take one event in."""
        ...

    def paused(self) -> Any:
        """A context in which the terminal belongs to a person."""
        ...

    def __enter__(self) -> Self:
        """Begin to watch."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching; what was shown stays."""
        ...


def on_terminal() -> bool:
    """Whether standard error is a terminal on which a picture may move."""
    env = os.environ
    still = env.get("CI") or env.get("TERM", "dumb") == "dumb"
    return sys.stderr.isatty() and not still


def view(*, json: bool = False, quiet: bool = False) -> View:
    """The view that suits where the output goes."""
    if json:
        return JsonLines()
    if quiet:
        return Quiet()
    return LiveTree() if on_terminal() else PlainLines()


def notice(event: Event) -> str:
    """What a person must know however little is shown: a warning, or what a step deleted; else ""."""
    if word := _WORDS.get(event.kind):
        return f"{word}: {line(str(event.data.get('message', '')))}"
    return line(str(event.data.get("deleted", ""))) if event.kind == "step_finished" else ""


class Quiet:
    """Shows nothing but warnings and deletions."""

    def __call__(self, event: Event) -> None:
        """Take one event in."""
        if text := notice(event):
            _tell(text)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the terminal belongs to a person."""
        yield

    def __enter__(self) -> Self:
        """Begin to watch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""


class JsonLines(Quiet):
    """Each event as one line of JSON on standard output; when its reader has gone, the run goes on."""

    def __init__(self) -> None:
        self._open = True

    def __call__(self, event: Event) -> None:
        """Write the event."""
        from kernel.text import to_json

        if not self._open:
            return
        try:
            sys.stdout.write(to_json(event.as_dict()) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            self._open = False


class PlainLines(Quiet):
    """One line on standard error for what a person wants to know afterwards."""

    def __call__(self, event: Event) -> None:
        """Say it, if it is worth a line."""
        say = getattr(self, f"_{event.kind}", None)
        for text in filter(None, (say(event.data, event) if say else "", notice(event))):
            where = event.loop_id.rpartition(f"-{event.run}-")[2] if event.parent_id else ""
            _tell(f"[{where}] {text}" if where else text)

    def _run_started(self, data: Any, event: Event) -> str:
        return f"run {event.run}: {elide(str(data.get('task', '')), 100)}"

    def _phase_finished(self, data: Any, event: Event) -> str:
        gate = f": {data['gate']}" if data.get("gate") else ""
        attempt = f", attempt {data['attempt']}" if data.get("attempt", 1) > 1 else ""
        return f"{str(data['phase']).upper()}{attempt}{gate}"

    def _ask_finished(self, data: Any, event: Event) -> str:
        used = (data.get("prompt_tokens") or 0) + (data.get("completion_tokens") or 0)
        if not used:
            return ""
        reused = ", from the log" if data.get("reused") else ""
        model = line(str(data.get("model") or data.get("rung")))
        cost = f"{tokens(used)} tokens, {money(data.get('usd'))}"
        phase = _PHASES.get(data["phase"], str(data["phase"]).upper())
        return f"{phase} by {model}: {cost}{reused}"

    def _ask_refused(self, data: Any, event: Event) -> str:
        return f"refused a reply of {line(str(data.get('rung')))}: {elide(str(data.get('why', '')), 160)}"

    def _step_finished(self, data: Any, event: Event) -> str:
        result = elide(str(data.get("result", "")), 80)
        return f"step {data['step']}: {data.get('state')}" + (f" → {result}" if result else "")

    def _step_started(self, data: Any, event: Event) -> str:
        return f"step {data['step']} {call(str(data.get('tool', '')), data.get('args'), 100)}"

    def _loop_waiting(self, data: Any, event: Event) -> str:
        return f"waits for {'a person' if data.get('for') == 'person' else 'an approval'}"

    def _run_finished(self, data: Any, event: Event) -> str:
        return f"run {event.run}: {data.get('status')}, {summary(data.get('spent') or {})}"


class LiveTree(Quiet):
    """The tree of loops, drawn anew eight times a second; its last picture stays."""

    def __init__(self) -> None:
        from rich.console import Console

        from runtime.cli.board import Board

        self.board = Board()
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._lock = threading.Lock()
        self._live: Any = None
        self._last = ""

    def __call__(self, event: Event) -> None:
        """Take one event in; what a person must know stands above the tree."""
        with self._lock:
            self.board.apply(event)
        if event.kind == "run_finished":
            spent = summary(event.data.get("spent") or {})
            self._last = f"{event.data.get('status')}: run {event.run}, {spent}"
        if text := notice(event):
            from rich.text import Text

            self._console.print(Text(text, "yellow", overflow="fold"))

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        from runtime.cli.tree import Tree

        tree = Tree(self.board, live=self._live is not None)
        size = self._console.size
        with self._lock:
            rows = tree.rows(size.height - 1 if tree.live else 200)
            return Group(*(tree.draw(row, size.width) for row in rows)) if rows else Text("…", "dim")

    def _start(self) -> None:
        from rich.live import Live

        self._live = Live(
            get_renderable=self._picture,
            console=self._console,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._live.start()

    def _stop(self, *, keep: bool) -> None:
        live, self._live = self._live, None  # the last picture has no moving signs
        if live is not None:
            live.transient = not keep
            live.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The tree makes room for a question and comes back below the answer."""
        self._stop(keep=False)
        since = self.board.clock()
        try:
            yield
        finally:
            self.board.skip(self.board.clock() - since)
            self._start()

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw the last picture."""
        self._stop(keep=True)
        if self._last:
            from rich.text import Text

            self._console.print(Text(self._last, "dim"))


def summary(spent: Any) -> str:
    """What a run cost in a few words."""
    calls = int(spent.get("calls", 0))
    used = spent.get("prompt_tokens", 0) + spent.get("completion_tokens", 0)
    parts = [f"{calls} call{'' if calls == 1 else 's'}"]
    if calls:
        parts += [f"{tokens(used)} tokens", money(spent.get("usd", 0))]
    return ", ".join([*parts, seconds(float(spent.get("seconds", 0)))])


def _tell(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        pass
