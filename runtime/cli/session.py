"""What commands share: the folder, a Fractal for it, a run that Ctrl-C can stop, and how its end is told."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from runtime.cli.words import safe

if TYPE_CHECKING:
    from kernel.events import Event
    from runtime.cli.view import View
    from runtime.fractal import Fractal, RunResult

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

    return Fractal(folder(), settings=settings)


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

        asks = not self.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        person = self._ask if asks else None
        return Fractal(folder(), settings=settings, on_event=self._hear, person=person)

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

    # ---- how it ended ----

    def conclude(self, fractal: Fractal, result: RunResult, output: Path | None = None) -> int:
        """Print the result, or say how it ended and what can be done; returns the exit code."""
        if result.status == "complete":
            self._deliver(result.output, output)
            if fractal.document(result.id).meta.unverified:
                tell("accepted, but nothing that could be checked proves it (unverified)", "yellow")
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
            if "--assume" not in result.question:  # that question says itself what to type
                tell(f"{command('answer', run, '…')} and then {command('resume', run)}")
        elif result.waiting == "approval":
            tell(f"waits for an approval of {result.question}", "magenta")
            tell(f"{command('approve', run)} or {command('reject', run)}, and then {command('resume', run)}")
        else:
            tell(f"nothing can be done now; look with: {command('tree', run)}", "yellow")

    def _say_ended(self, result: RunResult) -> None:
        tell(f"{result.status}: {result.reason or 'no reason is given'}", "red")
        if result.question:
            tell(f"open question: {result.question}")
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
