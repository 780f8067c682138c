"""What commands share: the folder, a Fractal for it, a run that Ctrl-C can stop, and how its end is told."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from runtime.cli.words import safe

if TYPE_CHECKING:
    from kernel.deciding import Decider
    from kernel.events import Event
    from runtime.cli.view import View
    from runtime.fractal import Fractal, RunResult
    from runtime.telling import Said
    from runtime.trust import Item

MOST_ITEMS = 30
"""Of what a folder asks for, how many are shown on a terminal."""
PASTED = 0.05
"""Seconds within which further lines belong to the same answer: nobody types them that fast."""


def folder() -> str:
    """The folder that `-C` names, else the present one."""
    context = click.get_current_context(silent=True)
    return (context.find_root().obj or {}).get("folder", ".") if context else "."


def command(*words: str) -> str:
    """A `fractal` command to type next, with the `-C` that this one had."""
    where = folder()
    given = ["fractal", *([] if where == "." else ["-C", where]), *words]
    return " ".join("…" if word == "…" else shlex.quote(word) for word in given)


def opened(**settings: Any) -> Fractal:
    """A Fractal for reading, or for what a person says."""
    from runtime.fractal import Fractal

    _warn_of_variables()
    return Fractal(folder(), settings=settings)


@cache
def _warn_of_variables() -> None:
    """Name each `FRACTAL_*` variable that sets nothing and looks like one that would; once a process."""
    from runtime.config import misspelt

    for name, meant in misspelt().items():
        tell(f"warning: {name} is no setting and is ignored; did you mean {meant}?", "yellow")


def ask_for_trust(fractal: Fractal) -> None:
    """At a terminal: ask once for what the folder's own files want; what is not allowed is refused later."""
    from runtime import trust

    if items := fractal.untrusted():
        show_items(items)
        if click.confirm("Allow this from now on?", err=True):
            trust.accept(items)


def show_items(items: Sequence[Item]) -> None:
    """What a folder asks for, in a line each; of many files only the first."""
    tell(f"{items[0].folder} asks for what you have not allowed yet:", "yellow")
    for item in items[:MOST_ITEMS]:
        tell(f"  {item}")
    if len(items) > MOST_ITEMS:
        tell(f"  … and {len(items) - MOST_ITEMS} more; all of them: fractal trust --json")


def columns(piped: int = 10_000) -> int:
    """How wide a line may be: the terminal's width; in a pipe, as a rule, nothing has to fit."""
    import shutil

    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else piped


def decider() -> Decider:
    """Who decides by this command: a person at a terminal, or a command that was started without one."""
    from kernel.deciding import Decider

    return Decider("terminal" if sys.stdin is not None and sys.stdin.isatty() else "command")


def tell(text: str, colour: str | None = None) -> None:
    """A line on standard error, harmless to a terminal."""
    click.echo(click.style(safe(text), fg=colour) if colour else safe(text), err=True)


def put(text: str) -> None:
    """Text on standard output: as it is into a pipe or file, harmless on a terminal."""
    shown = safe(text) if sys.stdout.isatty() else text
    sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")
    sys.stdout.flush()


@dataclass
class Session:
    """One piece of work that is watched and can be stopped."""

    watch: View
    json: bool = False
    run: str = ""

    def open(self, **settings: Any) -> Fractal:
        """A Fractal whose events are watched, and whose questions are asked if there is a terminal."""
        from runtime.fractal import Fractal
        from runtime.telling import Person

        _warn_of_variables()
        asks = not self.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        person = Person(self._ask, self._approve, decider()) if asks else None
        fractal = Fractal(folder(), settings=settings, on_event=self._hear, person=person)
        if asks:
            ask_for_trust(fractal)
        return fractal

    def _hear(self, event: Event) -> None:
        self.run = self.run or event.run
        self.watch(event)

    def drive(self, work: Coroutine[Any, Any, RunResult]) -> RunResult:
        """Do the work. The first Ctrl-C stops it with everything saved, the second ends at once."""
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
                error.add_note(f"what was done is kept; go on with: {command('resume', self.run)}")
            raise
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def _guarded(self, work: Coroutine[Any, Any, RunResult]) -> RunResult:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stopped = False

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal stopped
            if stopped:
                _end_at_once()
            stopped = True
            loop.call_soon_threadsafe(task.cancel)

        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) != signal.SIG_IGN:  # such as under nohup
                signal.signal(each, stop)
        return await work

    def _say_interrupted(self) -> None:
        if self.run:
            tell(f"interrupted; go on with: {command('resume', self.run)}", "yellow")

    # ---- a person at the terminal ----

    async def _ask(self, question: str) -> str:
        with self.watch.paused():
            tell(f"\n{question}", "magenta")
            click.echo("(Enter alone: answer later)\n> ", nl=False, err=True)
            return await _line_of_terminal()

    async def _approve(self, question: str) -> Said | None:
        from runtime.telling import Said

        with self.watch.paused():
            tell(f"\nwaits for an approval of {question}", "magenta")
            click.echo(
                "(y: approve, n: reject, other words: reject for that reason, Enter alone: later)\n> ",
                nl=False,
                err=True,
            )
            said = await _line_of_terminal()
        if said.lower() in ("y", "yes"):
            return Said("approve")
        return Said("reject", {"why": "" if said.lower() in ("n", "no") else said}) if said else None

    # ---- how it ended ----

    def conclude(self, fractal: Fractal, result: RunResult, output: Path | None = None) -> int:
        """Print the result, or say how it ended and what can be done; returns the exit code."""
        from kernel.document import ACCEPTED

        if result.status in ACCEPTED:
            self._deliver(result.output, output)
            if result.status == "unverified":
                why = result.reason or "accepted, but nothing that could be checked proves it"
                tell(f"unverified: {why}", "red" if result.exit else "yellow")
        elif result.status == "interrupted":
            self._say_interrupted()
        elif result.status == "waiting":
            self._say_waiting(result)
        else:
            self._say_ended(result)
        return int(result.exit)

    def _deliver(self, text: str, output: Path | None) -> None:
        if output is not None:
            output.write_text(text, "utf-8", errors="backslashreplace")
        elif not self.json and text:
            put(text)

    def _say_waiting(self, result: RunResult) -> None:
        run = result.run
        if result.waiting == "person":
            tell(f"waits for an answer: {result.question}", "magenta")
            if "--assume" not in result.question and command("answer", run) not in result.question:
                tell(command("answer", run, "…", "--resume"))  # else the question says what to type
        elif result.waiting == "approval":
            tell(f"waits for an approval of {result.question}", "magenta")
            tell(f"{command('approve', run, '--resume')} or {command('reject', run, '--resume')}")
        else:
            tell(f"nothing can be done now; look with: {command('tree', run)}", "yellow")

    def _say_ended(self, result: RunResult) -> None:
        tell(f"{result.status}: {result.reason or 'no reason is given'}", "red")
        if result.question:  # its first line: how to answer a run that has ended would mislead
            tell(f"open question: {result.question.splitlines()[0]}")
        if result.output:
            tell("partial result:\n" + "\n".join(result.output.splitlines()[:40]))
        tell(f"why: {command('explain', result.run)}")


async def _line_of_terminal() -> str:
    """A line that a person types, and what they pasted with it; "" at the end of the input.

    Waiting for it can be cancelled, which a thread that reads could not.
    """
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


def _end_at_once() -> NoReturn:
    """No more waiting for anything: what is on disk is enough to go on from, and commands end as well."""
    from kernel.process import end_all

    end_all()
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\n")  # the cursor that the live tree hid
    os._exit(130)


Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def completed_runs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The ids of runs, for shell completion."""
    from kernel.workspace import Workspace
    from runtime.fractal import shipped_system

    workspace = Workspace.find(Path(folder()), shipped_system())
    return [run for run in workspace.run_ids() if run.startswith(incomplete)]


def run_argument(name: str = "run", *, required: bool = True) -> Option:
    """The argument that names a run; where it may be left out, it is "" and means the newest."""
    if required:
        return click.argument(name, shell_complete=completed_runs)
    return click.argument(name, required=False, default="", shell_complete=completed_runs)


def json_option(text: str = "Print JSON.") -> Option:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)
