"""The input line of a conversation: its history, its completion, and the bar below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from kernel import disk
from kernel.events import Event
from runtime.cli.live import SPINNER, Board, Tree
from runtime.cli.output import call, columns, cost_of, elide, notify, seconds, tokens, width
from runtime.cli.progress import PlainLines, View

MOST_HISTORY = 1_000_000
"""Bytes of the history; the older half is dropped when it has more."""
REDRAWN = 0.2
"""Seconds between two drawings of the bar."""


class History(FileHistory):
    """The lines typed so far, in a private file. A file that cannot be used is reported once."""

    def __init__(self, path: Path, make: Callable[[], None]) -> None:
        super().__init__(str(path))
        self._path = path
        self._make = make
        self._broken = False

    def load_history_strings(self) -> Iterable[str]:
        """The lines, newest first."""
        try:
            if self._path.is_file() and self._path.stat().st_size > MOST_HISTORY:
                raw = disk.read(self._path)[-MOST_HISTORY // 2 :]
                disk.put(self._path, raw[raw.find(b"\n#") :])
            return list(super().load_history_strings())
        except OSError as error:
            self._report(error)
            return []

    def store_string(self, string: str) -> None:
        """Append a line."""
        try:
            self._make()
            with suppress(FileExistsError):
                disk.create(self._path, b"")  # readable by its owner only
            super().store_string(string)
        except OSError as error:
            self._report(error)

    def _report(self, error: OSError) -> None:
        if not self._broken:
            notify(f"the history cannot be used: {self._path}: {error.strerror}", "yellow")
        self._broken = True


class LineCompleter(Completer):
    """Completes commands, the ids of runs after a command, and paths of the folder."""

    def __init__(self, commands: Iterable[str], runs: Callable[[str], list[str]], folder: Path) -> None:
        self._commands = [f"/{name}" for name in commands]
        self._runs = runs
        self._paths = PathCompleter(get_paths=lambda: [str(folder)])

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What the word before the cursor may become."""
        before = document.text_before_cursor
        word = before.rpartition(" ")[2]
        names: list[str] = []
        if before.startswith("/"):
            names = self._runs(word) if " " in before else self._commands
        yield from (Completion(name, -len(word)) for name in names if name.startswith(word))
        if " " in before or not before.startswith("/"):
            yield from self._paths.get_completions(Document(word), complete_event)


def aside(text: str) -> None:
    """Print dim lines that break between words: what is worth knowing, and no result."""
    notify("\n".join(wrap(text, columns(120))), "bright_black")


class Progress(View):
    """A run as dim lines above the input line; what moves is for the bar below it."""

    def __init__(
        self, started: Callable[[], None] = lambda: None, hides: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`started` is called when the run has its id; a warning that `hides` accepts is not shown."""
        self.board = Board()
        self._started, self._hides = started, hides
        self._lines = PlainLines(aside)

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self.board.apply(event)
        if not (event.kind == "warning" and self._hides(event.data["message"])):
            self._lines(event)
        if event.kind == "run_started":
            self._started()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context whose time is that of a person."""
        since = self.board.clock()
        try:
            yield
        finally:
            self.board.skip(self.board.clock() - since)

    def state(self) -> list[str]:
        """What the run is at and its cost; then what is being written, or the calls that are made."""
        with self.board.lock:
            root = self.board.loops.get(self.board.root)
            if root is None:
                return ["starting", ""]
            running = [loop for loop in self.board.loops.values() if loop.status == "running"]
            asked = next((loop for loop in reversed(running) if loop.asking), None)
            spent = self.board.spent(root)
            figures = [f"{tokens(spent['tokens'])} tokens", cost_of(spent)]
            figures.append(seconds(self.board.elapsed(root), short=True))
            sign = SPINNER[int(self.board.clock() * 10) % len(SPINNER)]
            at = f"{sign} {Tree(self.board).detail(asked or (running or [root])[-1])}"
            room = columns() - width(" · ".join(["", *figures]))
            steps = [step for loop in running for step in loop.steps.values()]
            calls = [call(step.tool, step.args, 60) for step in steps if not (step.ended or step.loop)]
            written = elide(asked.writing, columns(), end=True) if asked else ""
            return [" · ".join([elide(at, room), *figures]), written or ", ".join(calls)]


def prompt_of(
    message: Callable[[], str], bar: Callable[[], list[str]], history: History, completer: LineCompleter
) -> PromptSession[str]:
    """The input line, with its `message` before it and a `bar` below it."""

    def toolbar() -> StyleAndTextTuples:
        return [("", "\n".join(elide(each, columns()) for each in bar()))]

    return PromptSession(
        message,
        bottom_toolbar=toolbar,
        history=history,
        completer=completer,
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        refresh_interval=REDRAWN,
        style=Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack"}),
    )
