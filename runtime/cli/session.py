"""What commands share: the folder, a Fractal for it, arguments, and a run that Ctrl-C can stop."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kernel.document.redaction import Verbatim
from runtime.cli.output import confirm, count, echo, notify, put, safe, wants_json

if TYPE_CHECKING:
    from kernel.events import Event
    from runtime.api.fractal import Fractal, RunResult
    from runtime.api.remembered import Remembered
    from runtime.cli.progress import View
    from runtime.workspace.deciders import Decider
    from runtime.workspace.inbox import Said
    from runtime.workspace.trust import Item

T = TypeVar("T")
OF_KIND, THIS_CALL = "k", "a"
"""What a person types to approve all of this kind in this run, or this call for good."""
PASTED = 0.05
"""Seconds within which further lines belong to the same answer: they were pasted."""


def folder() -> str:
    """The folder given with `-C`, else the current one."""
    context = click.get_current_context(silent=True)
    return (context.find_root().obj or {}).get("folder", ".") if context else "."


def command(*words: str) -> str:
    """A `fractal` command to type next, with the `-C` of this one."""
    place = folder()
    parts = ["fractal", *([] if place == "." else ["-C", place]), *words]
    return " ".join("…" if word == "…" else shlex.quote(word) for word in parts)


def opened(**settings: Any) -> Fractal:
    """A Fractal without progress or questions."""
    from runtime.api.fractal import Fractal

    _warn_of_variables()
    return Fractal(folder(), settings=settings)


def opened_memory() -> Fractal | Remembered:
    """The memory of this folder; a whole Fractal only where runs or trust are to be looked at first."""
    from runtime.api.remembered import Remembered

    _warn_of_variables()
    remembered = Remembered(folder())
    return remembered if remembered.suffices else opened()


def opened_to_change(**settings: Any) -> Fractal:
    """A Fractal whose system is to be changed; a person's edits are recorded first."""
    fractal = opened(**settings)
    fractal.workshop.open()
    return fractal


@cache
def _warn_of_variables() -> None:
    """Warn of `FRACTAL_*` variables that look like misspelt settings; once per process."""
    from runtime.workspace.settings import misspelt

    for name, suggestion in misspelt().items():
        notify(f"warning: unknown variable {name} is ignored; did you mean {suggestion}?", "yellow")


def allow(items: Sequence[Item], *, sure: bool = False) -> bool:
    """Show what a folder asks for and, unless `sure`, ask whether to allow it; whether it is allowed now."""
    from runtime.workspace import trust

    notify(f"{items[0].folder} asks for permissions that you have not granted:", "yellow")
    for item in items:
        notify(Verbatim(f"  {item.line()}"))
    if not (sure or sys.stdin.isatty()):
        notify("nothing was allowed; to allow all: fractal trust --yes")
    elif sure or confirm("Allow this from now on?"):
        trust.accept(items)
        return True
    return False


def require(package: str, title: str, extra: str = "") -> None:
    """Raise `ConfigurationError` without a package, which an extra (default: of its name) installs."""
    from kernel.errors import ConfigurationError

    if find_spec(package) is None:
        raise ConfigurationError(
            f"{title} is not installed; pip install 'fractal-runtime[{extra or package}]'"
        )


def text_of(path: Path | None, limit: int) -> str:
    """The UTF-8 text of a file, or of standard input, of at most `limit` bytes."""
    source = path or "standard input"
    try:
        with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise click.UsageError(f"{source}: cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise click.UsageError(f"{source}: more than {limit:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{source}: not UTF-8 text (byte {error.start}); convert it first") from None


def view(*, json: bool = False, quiet: bool = False) -> View:
    """The view that suits the output."""
    from runtime.cli import progress

    if json:
        return progress.JsonLines()
    if quiet:
        return progress.View()
    if progress.on_terminal():
        from runtime.cli.live import LiveTree

        return LiveTree()
    return progress.PlainLines()


def decider() -> Decider:
    """Who decides with this command: a person at a terminal, or a command without a terminal."""
    from runtime.workspace.deciders import Decider

    return Decider("terminal" if sys.stdin is not None and sys.stdin.isatty() else "command")


class Session:
    """Work that is shown and can be stopped."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        events: bool = True,
        watch: View | None = None,
        read: Callable[[str], Awaitable[str]] | None = None,
        declined: set[Item] | None = None,
    ) -> None:
        """Show progress as the options say, or in `watch`; without `events`, `--json` shows none.

        `read` shows how a question can be answered, and returns the reply. What is `declined` already is not
        asked about, and what a person declines now is added.
        """
        self.json = wants_json()
        self.run = ""
        self.asks = False  # whether there is a person to ask
        self.fractal: Fractal | None = None
        self.stopping = False
        self._cancel: Callable[[], object] = lambda: None
        self._declined: set[Item] = set() if declined is None else declined
        self.watch = watch or view(json=self.json and events, quiet=quiet or self.json)
        self._read = read or _typed

    def open(self, **settings: Any) -> Fractal:
        """A Fractal whose events are shown, and whose questions are asked at a terminal."""
        from runtime.api.fractal import Fractal
        from runtime.workspace.inbox import Person

        _warn_of_variables()
        terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        self.asks = terminal and not self.json
        person = Person(self._ask, self._approve, decider()) if self.asks else None
        fractal = Fractal(folder(), settings=settings, on_event=self._hear, person=person)
        items = [item for item in fractal.to_allow() if item not in self._declined] if self.asks else []
        if items and not allow(items):
            self._declined.update(items)
        self.fractal = fractal
        return fractal

    def _hear(self, event: Event) -> None:
        self.run = self.run or event.run
        self.watch(event)

    def drive(self, work: Coroutine[Any, Any, RunResult]) -> RunResult:
        """Do the work. The first Ctrl-C saves and stops, the second ends the process at once."""
        import asyncio

        from kernel.errors import FractalError

        before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            with self.watch:
                return asyncio.run(self._guarded(work))
        except asyncio.CancelledError:
            self._say_interrupted()
            raise click.exceptions.Exit(130) from None
        except FractalError as error:
            if self.run:
                error.add_note(f"finished steps are kept; continue with: {command('resume', self.run)}")
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _guarded(self, work: Coroutine[Any, Any, RunResult]) -> RunResult:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # for example under nohup
                signal.signal(number, self.stop)
        return await self.stoppable(work)

    async def stoppable(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work, which `stop` cancels from any thread."""
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self.stopping:  # before it could be cancelled
            task.cancel()
        return await work

    def stop(self, *_: object) -> None:
        """Save and stop the work; the second time, end the process at once."""
        if self.stopping:
            end_at_once()
        self.stopping = True
        with suppress(RuntimeError):  # the work has just ended
            self._cancel()

    def _say_interrupted(self) -> None:
        if self.run:
            notify(f"interrupted; continue with: {command('resume', self.run)}", "yellow")

    async def _ask(self, question: str) -> str:
        with self.watch.paused():
            notify(f"\n{question}", "magenta")
            return await self._read("(press Enter to answer later)")

    async def _approve(self, question: str) -> Said | None:
        from kernel.loop.approval import PLAN_WAITS
        from runtime.workspace.inbox import Said

        with self.watch.paused():
            notify(Verbatim(f"\nwaiting for approval of {question}"), "magenta")
            if question == PLAN_WAITS:
                self._show_plan()
            scopes = self._scopes()
            for key, (_, text) in scopes.items():
                echo(Verbatim(f"{key}: approve, {text}"), err=True)
            while True:
                reply = await self._read(
                    "(y: approve, n: reject, other text: reject with this reason, Enter: later)"
                )
                if reply.lower() not in (OF_KIND, THIS_CALL) or reply.lower() in scopes:
                    break
                notify(f"{reply} is not offered here", "yellow")
        if reply.lower() in ("y", "yes"):
            return Said("approve")
        if reply.lower() in scopes:
            return Said("approve", {"scope": scopes[reply.lower()][0]})
        return Said("reject", {"why": "" if reply.lower() in ("n", "no") else reply}) if reply else None

    def _show_plan(self) -> None:
        assert self.fractal is not None
        for waits in self.fractal.review():
            if waits.run == self.run:
                for text in (*waits.about(), *(each.diff for each in waits.changes)):
                    notify(text)

    def _scopes(self) -> dict[str, tuple[str, str]]:
        """By the key to type, the scopes beyond this call that can be approved now, each in words."""
        from kernel.errors import FractalError
        from runtime.workspace.deciders import ALWAYS, SAME_KIND
        from runtime.workspace.inbox import offered

        assert self.fractal is not None
        scopes: dict[str, tuple[str, str]] = {}
        with suppress(FractalError):  # it waits for the approval of a plan
            offers = offered(self.fractal, self.run)
            if not offers.no_kind:
                kinds = ", ".join(f"`{safe(kind)}`" for kind in dict.fromkeys(offers.kinds))
                scopes[OF_KIND] = SAME_KIND, f"and all of the kind {kinds} for the rest of this run"
            if not offers.no_always:
                scopes[THIS_CALL] = ALWAYS, "and always this exact call in this folder (kept in fractal.yaml)"
        return scopes

    def conclude(self, result: RunResult, output: Path | None = None, *, review: bool = False) -> int:
        """Print the result, or how the run ended and what you can do; returns the exit code.

        A person who is to `review` the changes in its worktree is not told how to apply them.
        """
        from kernel.document.model import ACCEPTED

        if result.status in ACCEPTED:
            if output is not None:
                output.write_text(result.output, "utf-8", errors="backslashreplace")
            elif not self.json and result.output:
                put(result.output)
            if result.status == "unverified":
                reason = result.reason or "accepted without a criterion that could be checked"
                notify(f"unverified: {reason}", "red" if result.exit else "yellow")
        elif result.status == "unanswered":
            if not self.json:
                put(result.output)
            notify(f"unanswered: {result.reason}", "yellow")
        elif result.status == "interrupted":
            self._say_interrupted()
        elif result.status == "waiting":
            self._say_waiting(result)
        else:
            self._say_ended(result)
        if result.to_apply and not (review and self.asks):
            say_to_apply(result.run, result.to_apply)
        return int(result.exit)

    def _say_waiting(self, result: RunResult) -> None:
        from kernel.loop.approval import PLAN_WAITS

        run = result.run
        if result.waiting == "person":
            notify(f"waiting for an answer: {result.question}", "magenta")
            # otherwise the question already says what to type
            if "--assume" not in result.question and command("answer", run) not in result.question:
                notify(command("answer", run, "…", "--resume"))
        elif result.waiting == "approval":
            notify(Verbatim(f"waiting for approval of {result.question}"), "magenta")
            if result.question == PLAN_WAITS:
                notify(f"look at it: {command('review', run)}")
            notify(f"{command('approve', run, '--resume')} or {command('reject', run, '--resume')}")
        elif result.waiting == "lifeforce":
            notify(f"waiting for lifeforce: {result.question}", "magenta")
            notify(f"{command('lifeforce')} shows how much there is; then {command('resume', run)}")
        else:
            notify(f"no step can run now; see: {command('tree', run)}", "yellow")

    def _say_ended(self, result: RunResult) -> None:
        notify(f"{result.status}: {result.reason or 'no reason given'}", "red")
        if result.question:  # only the first line: the run has ended and takes no answer
            notify(f"open question: {result.question.splitlines()[0]}")
        if result.output:
            notify("partial result:\n" + "\n".join(result.output.splitlines()[:40]))
        notify(f"why: {command('explain', result.run)}")


async def until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Do the work until Ctrl-C or SIGTERM, which cancel it."""
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


def say_to_apply(run: str, number: int) -> None:
    """Say what can be done with the changes in the worktree of a run."""
    then = f"{command('apply', run)} or {command('discard', run)}"
    notify(f"{count(number, 'changed file')} to apply; see: {command('diff', run)}; then: {then}")


async def _typed(hint: str) -> str:
    """A line that is typed below the hint."""
    echo(f"{hint}\n> ", nl=False, err=True)
    return await _line_of_terminal()


async def _line_of_terminal() -> str:
    """A typed line, with what was pasted after it; "" at the end of the input.

    Waiting here can be cancelled, unlike a thread that reads.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    handle = sys.stdin.fileno()
    ready = asyncio.Event()
    loop.add_reader(handle, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)
    data = os.read(handle, 65536)
    while data and select.select([handle], [], [], PASTED)[0]:
        more = os.read(handle, 65536)
        if not more:
            break
        data += more
    return data.decode("utf-8", "replace").strip()


def end_at_once() -> NoReturn:
    """End the process and its commands; what is on disk is enough to resume from."""
    from runtime.sandbox.process import end_all

    end_all()
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\n")  # the cursor that the live tree hid
    os._exit(130)


Option = Callable[[Callable[..., Any]], Callable[..., Any]]
model_option = click.option("-m", "--model", help="The model, such as ollama/llama3.2 or llama:PATH.gguf.")
budget_option = click.option(
    "--budget-usd", "usd", type=click.FloatRange(min=0), metavar="USD", help="The maximum cost."
)
_STEP = re.compile(r"\d{1,4}(\.\d+)*")
_RUN = re.compile(r"(.*-)?[2-9b-df-hjkmnp-tv-xz]{6}(-[\d.]+)?(\.md)?")


def completed_runs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The ids of runs, for shell completion."""
    from runtime.api.fractal import shipped_system
    from runtime.workspace.workspace import Workspace

    workspace = Workspace.find(Path(folder()), shipped_system())
    return [run for run in workspace.run_ids() if run.startswith(incomplete)]


def run_argument(name: str = "run") -> Option:
    """The argument that names a run; "" where it is left out, which means the newest."""
    return click.argument(name, required=False, default="", shell_complete=completed_runs)


def step_of_newest(run: str, step: str | None) -> tuple[str, str | None]:
    """RUN and STEP as given; a step number in the place of RUN is a step of the newest run."""
    return ("", run) if step is None and _STEP.fullmatch(run) else (run, step)


def step_number(step: str | None) -> int | None:
    """STEP as a number; None where it is left out."""
    if step is not None and not step.isdecimal():
        raise click.UsageError(f"{step} is not the number of a step")
    return None if step is None else int(step)


def run_and_words(words: Sequence[str], *, least: int = 0) -> tuple[str, str]:
    """RUN and the text after it, for arguments `[RUN] TEXT…` with at least that many words of text.

    The first word is a run if it has the form of an id, or is the beginning of one with four letters or more.
    """
    if len(words) > least:
        first = words[0]
        begins = len(first) >= 4 and any(run.startswith(first) for run in opened().workspace.run_ids())
        if begins or _RUN.fullmatch(first):
            return first, " ".join(words[1:])
    return "", " ".join(words)


def json_option(text: str) -> Option:
    """`--json`, which `emit` and `wants_json` read."""

    def keep(context: click.Context, _: click.Parameter, enabled: bool) -> None:
        context.meta["json"] = enabled

    return click.option("--json", is_flag=True, expose_value=False, callback=keep, help=text)
