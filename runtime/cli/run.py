"""`fractal run`, `resume` and `replay`: start a run, go on with one, do one again."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from runtime.cli.session import Session, command, json_option, put, run_argument, tell
from runtime.cli.view import view

MOST_CONTEXT = 10_000_000
"""Bytes of one context file, or of piped data."""
NOTICE_AFTER = 2.0
"""Seconds of a silent pipe after which we say what is waited for."""
READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


_settings = _options(
    click.option("-m", "--model", help="The model, such as ollama/llama3.2 or llama:PATH.gguf."),
    click.option(
        "--profile",
        type=click.Choice(["compact", "standard", "large"]),
        help="Work context for a model of 8k, 32k or 128k tokens.",
    ),
    click.option(
        "--budget-usd", "usd", type=click.FloatRange(min=0), metavar="USD", help="The most it may cost."
    ),
    click.option("--max-depth", type=click.IntRange(0, 8), help="From this depth on, one operation a loop."),
    click.option(
        "--skill",
        "skills",
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        multiple=True,
        callback=lambda _context, _option, paths: paths or None,
        help="An Agent Skill, or a folder of them, beside the configured ones.",
    ),
    click.option("--sandbox", type=click.Choice(["auto", "bwrap", "off"]), help="Where commands run."),
)
_output = _options(
    json_option("Print one typed event a line; the result is in the last one."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress."),
    click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Write the result into FILE.",
        metavar="FILE",
    ),
)


@click.command()
@click.argument("words", nargs=-1, metavar="TASK…")
@click.option("--file", "file", type=click.Path(dir_okay=False, path_type=Path), help="Read the task there.")
@click.option("--context", "files", type=READABLE, multiple=True, help="A file that the task is about.")
@click.option("-c", "--continue", "follow", is_flag=True, help="Follow up the newest run.")
@click.option("--after", metavar="RUN", help="Follow up that run.")
@click.option("--plan", "plan_only", is_flag=True, help="Stop after the plan and show it.")
@click.option("-y", "--yes", is_flag=True, help="Approve every step beforehand.")
@click.option("--agent", metavar="NAME", help="Work as this agent: with its settings, and what it learned.")
@click.option("--space", metavar="NAME", help="Use the memory of this space.")
@click.option("--reuse", is_flag=True, help="Take the result of the same task, where nothing has changed.")
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
    as_json: bool,
    quiet: bool,
    output: Path | None,
    **settings: Any,
) -> int:
    """Start a run. The task is what you say, `--file FILE`, or `-` for standard input.

    \b
      fractal run "count the words in notes.txt"
      git log -20 | fractal run "what changed this week?"

    Data piped in beside a task is context. The result goes to standard output, progress to standard error.
    """
    task, context = _task(words, file), [_context(path) for path in files]
    _refuse_output(output)
    if words != ("-",) and file != Path("-") and (data := piped()):
        context.append(("stdin", data))
    session = Session(view(json=as_json, quiet=quiet), as_json)
    fractal = session.open(**settings)
    if follow and not after:
        earlier = [each for each in fractal.runs() if each.type != "dream"]
        if not earlier:
            raise click.UsageError("there is no earlier run that -c could follow up")
        after = earlier[0].run
    options = {"after": after, "plan_only": plan_only, "yes": yes, "reuse": reuse}
    result = session.drive(fractal.run(task, context=context, **options))
    if result.reused:
        tell(f"the result of run {result.run}: the same task, files and instructions")
    if plan_only and result.waiting == "approval" and not as_json:
        put(plan_of(result.path))
    return session.conclude(fractal, result, output)


@click.command()
@run_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Go on with every unfinished run.")
@click.option(
    "--assume",
    "assume",
    multiple=True,
    metavar="rerun|done|STEP=…",
    help="What to think of steps that may have happened, or of one: 3=done, LOOP:3=rerun.",
)
@click.option("--redo", is_flag=True, help="Do again what instructions led to that have changed since.")
@click.option("-y", "--yes", is_flag=True, help="Approve every step beforehand.")
@_settings
@_output
def resume(
    run: str | None,
    everything: bool,
    assume: tuple[str, ...],
    redo: bool,
    yes: bool,
    as_json: bool,
    quiet: bool,
    output: Path | None,
    **settings: Any,
) -> int:
    """Go on with a run; without a name, the newest unfinished one.

    A person's changes in its documents are told first, with what is done again for them.
    """
    if run and everything:
        raise click.UsageError("give a run or --all, not both")
    if everything and output:
        raise click.UsageError("-o takes the result of one run; leave out --all")
    _refuse_output(output)
    options = {"assume": assume, "yes": yes, "redo": redo}

    def go_on(name: str | None) -> int:
        session = Session(view(json=as_json, quiet=quiet), as_json)
        fractal = session.open(**settings)
        return session.conclude(fractal, session.drive(fractal.resume(name, **options)), output)

    return _each(go_on) if everything else go_on(run)


def _each(go_on: Callable[[str | None], int]) -> int:
    """Every unfinished run, the oldest first; what stops one does not stop the next."""
    from kernel.document import ENDED
    from kernel.errors import FractalError
    from runtime.cli.session import opened

    names = [each.run for each in reversed(opened().runs()) if each.status not in ENDED | {"broken"}]
    if not names:
        tell("no run is unfinished")
    codes: list[int] = []
    for name in names:
        try:
            codes.append(go_on(name))
        except FractalError as error:
            tell(f"run {name}: {error}", "red")
            codes.append(int(error.exit))
    return next((code for code in codes if code), 0)


@click.command()
@run_argument()
@click.option("-m", "--model", help="Another model; without it, the replies come from the run's log.")
@_output
def replay(run: str, model: str | None, as_json: bool, quiet: bool, output: Path | None) -> int:
    """Do a run's task again as a new run: from its log of replies, or with another model.

    Steps are carried out anew, with their effects.
    """
    _refuse_output(output)
    session = Session(view(json=as_json, quiet=quiet), as_json)
    fractal = session.open()
    return session.conclude(fractal, session.drive(fractal.replay(run, model)), output)


# ---- what a run is given ----


def _task(words: tuple[str, ...], file: Path | None) -> str:
    if words and file:
        raise click.UsageError("give the task in words or by --file, not both")
    if file not in (None, Path("-")):
        return _text(file)
    if words == ("-",) or file:
        text = piped(always=True)
        if not text.strip():
            raise click.UsageError("standard input holds no task")
        return text
    if not " ".join(words).strip():
        raise click.UsageError(
            'what is to be done? fractal run "…", or --file FILE, or - to read it from standard input'
        )
    return " ".join(words)


def _context(path: Path) -> tuple[str, str]:
    return f"file {path}", _text(path)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_CONTEXT:
            raise click.UsageError(f"{path}: larger than {MOST_CONTEXT // 1_000_000} MB")
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path}: not UTF-8 text; convert it first") from None
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_output(output: Path | None) -> None:
    """Told before a run has cost anything, not when its result has nowhere to go."""
    if output is not None and not output.absolute().parent.is_dir():
        raise click.UsageError(f"-o {output}: there is no folder {output.absolute().parent}")


def piped(*, always: bool = False) -> str:
    """The text on standard input when something is piped or redirected in; "" on a terminal or for nothing.

    `always` reads a terminal as well. A socket that says nothing at once is left alone: whoever
    started us may just have handed down its own.
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
    return _read_all(handle)


def _read_all(handle: int) -> str:
    chunks: list[bytes] = []
    size = 0
    patience: float | None = NOTICE_AFTER
    while True:
        if not os.isatty(handle) and not select.select([handle], [], [], patience)[0]:
            tell("reading standard input as context until it ends; without any: < /dev/null")
            patience = None
            continue
        chunk = os.read(handle, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_CONTEXT:
            raise click.UsageError(f"standard input: more than {MOST_CONTEXT // 1_000_000} MB")
    try:
        return b"".join(chunks).decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8 text; convert it, or use < /dev/null") from None


def plan_of(path: Path) -> str:
    """§2 of the document as it stands in the file."""
    text = path.read_text("utf-8")
    start = text.find("## §2 PLAN")
    end = min(at for at in (text.find("\n## §3", start), text.find("\n<!-- rev", start), len(text)) if at > 0)
    return text[start:end].strip() if start >= 0 else f"there is no plan yet; {command('show', path.stem)}"
