"""`fractal` alone on a terminal: a conversation. Each line is a task, a run that follows the one before it.

The input line has the main thread, and a run a thread with its own event loop, so that neither waits for the
other. A line that is typed while a run works is said to it.
"""

from __future__ import annotations

import asyncio
import difflib
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from types import FrameType
from typing import Any, NoReturn

import click
from prompt_toolkit.patch_stdout import patch_stdout

from kernel.document.model import ENDED
from kernel.errors import FractalError
from kernel.loop.approval import PLAN_WAITS
from runtime import __version__
from runtime.api.fractal import Fractal, RunResult
from runtime.cli.output import count, elide, notify, put, table
from runtime.cli.progress import summary
from runtime.cli.prompt import History, LineCompleter, Progress, aside, prompt_of
from runtime.cli.run import plan_of
from runtime.cli.session import Session, completed_runs, end_at_once, folder, opened
from runtime.workspace.deciders import TERMINAL
from runtime.workspace.inbox import TOO_LATE, Inbox, unheard
from runtime.workspace.trust import Item

COMMANDS: Mapping[str, tuple[str, str]] = {
    "undo": ("[STEP]", "restore what the last run, or a step, changed"),
    "diff": ("[STEP]", "show what the last run changed"),
    "show": ("[RUN]", "show the document of the last run"),
    "explain": ("[RUN]", "explain the last run"),
    "cost": ("", "show the cost of it and of the conversation"),
    "model": ("[NAME]", "show or set the model of the next runs"),
    "plan": ("TASK", "plan a task, and stop before the first step"),
    "resume": ("[RUN]", "continue a run that stopped or waits"),
    "continue": ("[RUN]", "let the next task follow an earlier run"),
    "help": ("", "show this list"),
    "quit": ("", "end the conversation"),
}
"""By name, the arguments of a command and what it does."""
Work = Coroutine[Any, Any, RunResult]


class Conversation:
    """One conversation: its last run, and the run that is working now."""

    def __init__(self, call: Callable[[Sequence[str]], int], report: Callable[[Exception], object]) -> None:
        """`call` calls a command as from a shell and returns its exit code; `report` prints an error."""
        self._shell, self._report = call, report
        self._context = click.get_current_context()
        self._settings: dict[str, Any] = {}
        self._last = ""  # the run that the next task follows
        self._spent: Counter[str] = Counter()  # by all ended runs
        self._declined: set[Item] = set()  # what a person does not allow
        self._warned: set[str] = set()  # of what is not allowed
        self._view = Progress()
        self._session = Session(watch=self._view, declined=self._declined)
        self._fractal = self._session.open()  # asks for what the folder is not allowed yet
        self._thread: threading.Thread | None = None
        self._working = False
        self._turn = threading.Lock()  # held while `_working` changes, or a line is left for the run
        self._lines: deque[str] = deque()  # said, and not yet in the inbox of the run
        self._asked: Future[str] | None = None  # the reply to what the run asks

    def hold(self) -> int:
        """Read lines until the end of the input or `/quit`; returns the exit code."""
        workspace = self._fractal.workspace
        aside(f"fractal {__version__} in {workspace.folder}; /help lists the commands, Ctrl-D ends")
        history = History(workspace.state / "history", workspace.make)
        runs = lambda begin: completed_runs(self._context, click.Argument(["run"]), begin)  # noqa: E731
        completer = LineCompleter(COMMANDS, runs, workspace.folder)
        prompt = prompt_of(self._message, self._bar, history, completer)
        before = {each: signal.signal(each, _end) for each in (signal.SIGTERM, signal.SIGHUP)}
        try:
            with patch_stdout(raw=True):
                try:
                    while self._read(prompt.prompt, lambda: prompt.default_buffer.text):
                        pass
                finally:
                    self._finish()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 0

    def _read(self, prompt: Callable[[], str], typed: Callable[[], str]) -> bool:
        """Read a line and do what it says; false at the end."""
        try:
            text = prompt()
        except EOFError:
            return False
        except KeyboardInterrupt:
            return self._interrupt() or bool(typed())
        try:
            return self._take(text)
        except FractalError as error:
            self._report(error)
        except (KeyboardInterrupt, click.Abort):  # click.Abort: at a question
            notify("\ninterrupted", "yellow")
        return True

    def _take(self, text: str) -> bool:
        if text.startswith("/"):
            return self._command(text)
        if (asked := self._asked) is not None and not asked.done():
            with suppress(InvalidStateError):  # the run was stopped meanwhile
                asked.set_result(text.strip())
        elif text.strip() and not self._say(text):
            self._task(text)
        return True

    def _task(self, task: str, **options: Any) -> None:
        self._start(lambda fractal: fractal.run(task, after=self._last or None, **options))

    # ---- the run that works ----

    def _start(self, work: Callable[[Fractal], Work]) -> None:
        if self._thread is not None:
            self._thread.join()  # its run has ended
        self._view = Progress(self._deliver, self._hides)
        self._session = Session(watch=self._view, read=self._reply, declined=self._declined)
        with _plainly():
            self._fractal = self._session.open(**self._settings)
        self._working = True
        self._thread = threading.Thread(target=self._work, args=(work(self._fractal),), daemon=True)
        self._thread.start()

    def _work(self, work: Work) -> None:
        """Do the work and what follows it, in a thread of its own."""
        with self._context.scope(cleanup=False):
            try:
                asyncio.run(self._session.stoppable(self._drive(work)))
            except asyncio.CancelledError:
                notify("interrupted; to continue: /resume", "yellow")
            except Exception as error:
                self._report(error)
            finally:
                self._last = self._session.run or self._last
                with self._turn:
                    self._working = False

    async def _drive(self, work: Work) -> None:
        while True:
            result = await work
            self._conclude(result)
            with self._turn:
                late = self._too_late(result)
                if not late:
                    self._working = False
                    return
            self._session.run = ""
            work = self._fractal.run("\n".join(late), after=result.run)

    def _conclude(self, result: RunResult) -> None:
        self._last = result.run
        spent = result.spent.items()
        self._spent.update({name: each for name, each in spent if isinstance(each, int | float)})
        self._spent["runs"] += 1
        if result.waiting == "approval" and result.question == PLAN_WAITS:
            put(plan_of(result.path))
        self._session.conclude(result)
        if result.status == "waiting":
            notify("to go on here: /resume")

    def _too_late(self, result: RunResult) -> list[str]:
        """What was said and the ended run has not taken up; it becomes the next task."""
        if result.status not in ENDED:
            return []  # it is in the inbox, and is heard when the run continues
        inbox = Inbox(result.path.parent)
        late = unheard(inbox.folder)
        for path, _ in late:
            inbox.taken(path)
        texts = [*(text for _, text in late), *self._lines]
        self._lines.clear()
        return texts

    def _say(self, text: str) -> bool:
        """Say a line to the run that works; false if none does."""
        with self._turn:
            if not self._working:
                return False
            self._lines.append(text)
        aside("the run is told this")
        self._deliver()
        return True

    def _deliver(self) -> None:
        """Leave the lines in the inbox of the run, once it has one; what comes too late follows it."""
        while self._session.run:
            try:
                text = self._lines.popleft()
            except IndexError:
                return
            try:
                self._fractal.tell(self._session.run, "say", by=TERMINAL, text=text)
            except FractalError:  # it has ended
                self._lines.appendleft(text)
                return

    async def _reply(self, hint: str) -> str:
        notify(hint)
        self._asked = Future()
        try:
            return await asyncio.wrap_future(self._asked)
        finally:
            self._asked = None

    def _interrupt(self) -> bool:
        """Save and stop the run that works, the second time the process; false if none works."""
        if not self._working:
            return False
        self._session.stop()
        return True

    def _finish(self) -> None:
        """Stop the run that works, and wait until it is saved."""
        if self._interrupt() and self._thread is not None:
            try:
                self._thread.join()
            except KeyboardInterrupt:
                end_at_once()

    # ---- what is shown ----

    def _hides(self, message: str) -> bool:
        """Whether a warning says nothing new: what is said too late becomes the next task."""
        repeated = message in self._warned
        if message.endswith("fractal trust"):
            self._warned.add(message)
        return repeated or message.startswith(TOO_LATE)

    def _message(self) -> str:
        return "? " if self._asked is not None else "› "

    def _bar(self) -> list[str]:
        if self._working:
            first, second = self._view.state()
            if self._asked is not None:
                first = "type the answer; Enter alone: later"
            return ["stopping; Ctrl-C again ends at once" if self._session.stopping else first, second]
        return [f"follows run {self._last} · /help" if self._last else "/help"]

    # ---- commands ----

    def _command(self, text: str) -> bool:
        name, _, rest = text[1:].partition(" ")
        rest = rest.strip()
        match name:
            case "quit":
                return False
            case "help":
                rows = [[f"/{each} {arguments}", what] for each, (arguments, what) in COMMANDS.items()]
                notify("\n".join(table(rows)))
            case "undo" | "diff" | "show" | "explain" | "cost":
                run = self._session.run if self._working else self._last
                named = rest and name in ("show", "explain")
                self._call(name, *([] if named or not run else [run]), *rest.split())
                if name == "cost":
                    notify(f"conversation: {count(self._spent['runs'], 'run')}, {summary(self._spent)}")
            case "model":
                self._model(rest)
            case "plan" | "resume" | "continue":
                self._next(name, rest)
            case _:
                near = difflib.get_close_matches(name, COMMANDS, 1)
                hint = f"did you mean /{near[0]}?" if near else "/help lists the commands"
                notify(f"there is no command /{name}; {hint}")
        return True

    def _next(self, name: str, rest: str) -> None:
        """The commands that a run in work has to end for."""
        if self._working:
            notify(f"/{name} is not possible while a run works; Ctrl-C interrupts it")
        elif name == "resume":
            self._start(lambda fractal: fractal.resume(rest or None))
        elif name == "continue":
            fractal = opened()
            earlier = [each.run for each in fractal.runs() if each.type != "dream"]
            self._last = fractal.find(rest or (earlier or [""])[0])
            task = fractal.root_document(self._last).text(1, "task")
            notify(f"the next task follows run {self._last}: {elide(task, 80)}")
        elif rest:
            self._task(rest, plan_only=True)
        else:
            notify("no task; use: /plan TASK")

    def _model(self, name: str) -> None:
        chosen = name or self._settings.get("model")
        if self._call("model", *(["--model", chosen] if chosen else [])) == 0 and name:
            self._settings["model"] = name
            notify(f"the following runs use {name}")

    def _call(self, *words: str) -> int:
        """Call a command as from a shell."""
        with _plainly():
            return self._shell(["-C", folder(), *words])


@contextmanager
def _plainly() -> Iterator[None]:
    """A context that prints without regard to the input line, which is not there meanwhile."""
    with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
        yield


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
