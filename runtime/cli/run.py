"""`fractal run`, `resume`, `replay` and `fork`: start a run, continue one, repeat one."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kernel.document.model import ENDED
from kernel.errors import FractalError
from runtime.cli.changes import review_changes
from runtime.cli.output import notify, put, wants_json
from runtime.cli.session import (
    Session,
    budget_option,
    command,
    json_option,
    model_option,
    opened,
    run_argument,
    step_number,
    step_of_newest,
    text_of,
)

MOST_CONTEXT = 10_000_000
"""Bytes of one context file, or of standard input."""
NOTICE_AFTER = 2.0
"""Seconds after which a silent pipe is reported."""
READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


_settings = _options(
    model_option,
    click.option(
        "--profile",
        type=click.Choice(["compact", "standard", "large"]),
        help="Context size for a model of 8k, 32k or 128k tokens.",
    ),
    budget_option,
    click.option(
        "--max-depth", type=click.IntRange(0, 8), help="Depth from which a loop is a single operation."
    ),
    click.option(
        "--skill",
        "skills",
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        multiple=True,
        callback=lambda _context, _option, paths: paths or None,
        help="An additional Agent Skill, or a folder of them.",
    ),
    click.option("--sandbox", type=click.Choice(["auto", "bwrap", "off"]), help="Where commands run."),
)
_output = _options(
    json_option("Print events as JSON lines; the last one has the result."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress."),
    click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Write the result to FILE.",
        metavar="FILE",
    ),
)


_worktree = _options(
    click.option("--worktree", is_flag=True, help="Work in a folder of its own; see fractal apply."),
    click.option("--review", is_flag=True, help="As --worktree; show the changes at the end and ask."),
)


@click.command()
@click.argument("words", nargs=-1, metavar="TASK…")
@click.option(
    "--file", "file", type=click.Path(dir_okay=False, path_type=Path), help="Read the task from a file."
)
@click.option("--context", "files", type=READABLE, multiple=True, help="A file to give as context.")
@click.option("-c", "--continue", "follow", is_flag=True, help="Follow up the newest run.")
@click.option("--after", metavar="RUN", help="Follow up the run RUN.")
@click.option("--plan", "plan_only", is_flag=True, help="Stop after the plan and show it.")
@click.option("-y", "--yes", is_flag=True, help="Approve steps in advance, except serious ones.")
@click.option("--agent", metavar="NAME", help="Use the settings and learned patterns of this agent.")
@click.option("--space", metavar="NAME", help="Use the memory of this space.")
@click.option(
    "--reuse", is_flag=True, help="Reuse an earlier result of this task if nothing has changed since."
)
@_worktree
@_settings
@_output
def run(
    words: tuple[str, ...],
    file: Path | None,
    files: tuple[Path, ...],
    follow: bool,
    after: str | None,
    plan_only: bool,
    yes: bool,
    reuse: bool,
    worktree: bool,
    review: bool,
    quiet: bool,
    output: Path | None,
    **settings: Any,
) -> int:
    """Start a run. The task is given in words, with `--file FILE`, or with `-` from standard input.

    \b
      fractal run "count the words in notes.txt"
      git log -20 | fractal run "what changed this week?"

    Piped data is context for the task. The result goes to standard output, progress to standard error.
    """
    task, context = _task(words, file), [(f"file {path}", text_of(path, MOST_CONTEXT)) for path in files]
    _refuse_output(output)
    if words != ("-",) and file != Path("-") and (data := piped()):
        context.append(("stdin", data))
    session = Session(quiet=quiet)
    fractal = session.open(**settings)
    if follow and not after:
        earlier = [each for each in fractal.runs() if each.type != "dream"]
        if not earlier:
            raise click.UsageError("-c: there is no earlier run")
        after = earlier[0].run
    options = {"after": after, "plan_only": plan_only, "yes": yes, "reuse": reuse}
    options["worktree"] = worktree or review
    result = session.drive(fractal.run(task, context=context, **options))
    if result.reused:
        notify(f"reused the result of run {result.run}: same task, files and instructions")
    if plan_only and result.waiting == "approval" and not wants_json():
        put(plan_of(result.path))
    code = session.conclude(result, output, review=review)
    if review and session.asks:
        review_changes(fractal, result)
    return code


@click.command()
@run_argument()
@click.option("--all", "everything", is_flag=True, help="Continue every unfinished run.")
@click.option(
    "--assume",
    "assume",
    multiple=True,
    metavar="rerun|done|STEP=…",
    help="Assume this of interrupted steps, or of one: 3=done, LOOP:3=rerun.",
)
@click.option("--redo", is_flag=True, help="Redo steps whose instructions have changed.")
@click.option("-y", "--yes", is_flag=True, help="Approve steps in advance, except serious ones.")
@_settings
@_output
def resume(
    run: str | None,
    everything: bool,
    assume: tuple[str, ...],
    redo: bool,
    yes: bool,
    quiet: bool,
    output: Path | None,
    **settings: Any,
) -> int:
    """Continue a run.

    Default: the one that you have edited or decided last, else the newest unfinished one, else the newest.
    Reports your edits of its documents first, and redoes what depends on them.
    """
    if run and everything:
        raise click.UsageError("give a run or --all, not both")
    if everything and output:
        raise click.UsageError("-o writes the result of one run; leave out --all")
    _refuse_output(output)
    options = {"assume": assume, "yes": yes, "redo": redo}

    def go_on(name: str | None) -> int:
        session = Session(quiet=quiet)
        fractal = session.open(**settings)
        if not name:
            name = fractal.to_resume()
            if fractal.root_document(name).ended and not fractal.touched([name]):
                notify(f"run {name} has ended, and nothing of it was edited; this is its result")
        return session.conclude(session.drive(fractal.resume(name, **options)), output)

    return _each(go_on) if everything else go_on(run)


def _each(go_on: Callable[[str | None], int]) -> int:
    """Continue every unfinished run, oldest first; an error stops only its own run."""
    names = [each.run for each in reversed(opened().runs()) if each.status not in ENDED | {"broken"}]
    if not names:
        notify("no unfinished run")
    codes: list[int] = []
    for name in names:
        try:
            codes.append(go_on(name))
        except FractalError as error:
            notify(f"run {name}: {error}", "red")
            codes.append(int(error.exit))
    return next((code for code in codes if code), 0)


@click.command()
@run_argument()
@click.option("-m", "--model", help="Ask this model instead of using the logged replies.")
@_output
def replay(run: str, model: str | None, quiet: bool, output: Path | None) -> int:
    """Repeat the task of a run (default: the newest) as a new run, from its log of replies or with a model.

    Steps are executed again, with their effects.
    """
    _refuse_output(output)
    session = Session(quiet=quiet)
    fractal = session.open()
    return session.conclude(session.drive(fractal.replay(run, model)), output)


@click.command()
@run_argument()
@click.argument("step", required=False)
@click.option("--no-run", "copy_only", is_flag=True, help="Only make the copy, and print its path.")
@click.option("-y", "--yes", is_flag=True, help="Approve steps in advance, except serious ones.")
@_worktree
@_settings
@_output
def fork(
    run: str,
    step: str | None,
    copy_only: bool,
    yes: bool,
    worktree: bool,
    review: bool,
    quiet: bool,
    output: Path | None,
    **settings: Any,
) -> int:
    """Copy a run (default: the newest) up to a step of its root, and go on differently.

    \b
      fractal fork 7f3kq2 3 --model openai/gpt-5
      fractal fork 7f3kq2 0 --no-run        edit its plan, then resume it

    Without STEP it goes on after the last step. The files stay as they are; with a worktree it has them as
    they were after that step.
    """
    run, step = step_of_newest(run, step)
    _refuse_output(output)
    session = Session(quiet=quiet)
    fractal = session.open(**settings)
    new = fractal.fork(run, step_number(step), worktree=worktree or review)
    if copy_only:
        put(str(fractal.path(new)))
        notify(f"continue with: {command('resume', new)}")
        return 0
    result = session.drive(fractal.resume(new, yes=yes))
    code = session.conclude(result, output, review=review)
    if review and session.asks:
        review_changes(fractal, result)
    return code


def _task(words: tuple[str, ...], file: Path | None) -> str:
    if words and file:
        raise click.UsageError("give the task in words or with --file, not both")
    if file is not None and file != Path("-"):
        return text_of(file, MOST_CONTEXT)
    if words == ("-",) or file:
        text = piped(always=True)
        if not text.strip():
            raise click.UsageError("standard input is empty: no task")
        return text
    if not " ".join(words).strip():
        raise click.UsageError('no task; use: fractal run "…", --file FILE, or - for standard input')
    return " ".join(words)


def _refuse_output(output: Path | None) -> None:
    """Refuse an output file without a folder before the run costs anything."""
    if output is not None and not output.absolute().parent.is_dir():
        raise click.UsageError(f"-o {output}: there is no folder {output.absolute().parent}")


def piped(*, always: bool = False) -> str:
    """The text of a redirected standard input, else ""; `always` reads a terminal too.

    A socket without data is ignored: it may be inherited from the parent process.
    """
    if sys.stdin is None:
        return ""
    try:
        handle = sys.stdin.fileno()
        mode = os.fstat(handle).st_mode
    except (OSError, ValueError):
        return ""
    if not always:
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return ""
        if stat.S_ISSOCK(mode) and not select.select([handle], [], [], 0.2)[0]:
            return ""
    if not os.isatty(handle) and not select.select([handle], [], [], NOTICE_AFTER)[0]:
        notify("reading context from standard input until it ends; to skip: < /dev/null")
    return text_of(None, MOST_CONTEXT)


def plan_of(path: Path) -> str:
    """Section 2 of a document, as in the file."""
    text = path.read_text("utf-8")
    start = text.find("## §2 PLAN")
    end = min(at for at in (text.find("\n## §3", start), text.find("\n<!-- rev", start), len(text)) if at > 0)
    return text[start:end].strip() if start >= 0 else f"no plan yet; see: {command('show', path.stem)}"
