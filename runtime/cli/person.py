"""`fractal answer`, `approve`, `reject`, `say`, `feedback`, `cancel`, `undo`: what a person tells a run."""

from __future__ import annotations

import sys

import click

from runtime.cli.diffs import unkept_lines
from runtime.cli.output import notify
from runtime.cli.session import (
    Session,
    command,
    decider,
    opened,
    run_and_words,
    run_argument,
    step_number,
    step_of_newest,
)
from runtime.workspace.deciders import ALWAYS, SAME_KIND
from runtime.workspace.runs import open_question
from runtime.workspace.workspace import settings_files

resume_option = click.option("--resume", is_flag=True, help="Continue the run at once.")


def send(run: str, kind: str, *, resume: bool = False, **values: str) -> int:
    """Leave a message in the inbox of a run, and say who takes it."""
    fractal = opened()
    name = fractal.find(run) if run else fractal.newest_waiting(kind)
    waits = kind != "answer" or open_question(fractal.documents(name), "person")
    delivered = fractal.tell(name, kind, by=decider(), **values)
    if values.get("scope") == ALWAYS:
        path = settings_files(fractal.workspace.root)[-1]
        notify(f"the call is in {path}, under approved; without its line it asks again")
    if delivered:
        notify(f"run {name} is running and takes it from its inbox")
    elif resume:
        session = Session()
        going = session.open()
        return session.conclude(session.drive(going.resume(name)))
    else:
        early = "" if waits else "; it is not waiting for an answer now"
        then = "end it" if kind in ("cancel", "veto") else "continue"
        notify(f"kept in the inbox of run {name}{early}; {then} with: {command('resume', name)}")
    return 0


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TEXT…")
@resume_option
def answer(words: tuple[str, ...], resume: bool) -> int:
    """Answer the question of a run (default: the newest that waits); `-` reads standard input."""
    run, text = _said(words)
    if not text:
        raise click.UsageError("the answer is empty")
    return send(run, "answer", resume=resume, text=text)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TEXT…")
def say(words: tuple[str, ...]) -> int:
    """Say something to a run while it works (default: the newest unfinished one); `-` reads standard input.

    Its next turn sees the text. A call that is being made is not interrupted.
    """
    run, text = _said(words)
    return send(run, "say", text=text)


def _said(words: tuple[str, ...]) -> tuple[str, str]:
    """RUN and the text of `[RUN] TEXT…`; `-` stands for standard input."""
    run, text = run_and_words(words, least=1)
    return run, (sys.stdin.read() if text == "-" else text).strip()


@click.command()
@run_argument()
@click.option("--kind", is_flag=True, help="Also approve all of the same kind for the rest of this run.")
@click.option("--always", is_flag=True, help="Also approve this exact call in this folder from now on.")
@resume_option
def approve(run: str, kind: bool, always: bool, resume: bool) -> int:
    """Approve the plan or the steps that a run waits for (default: the newest that waits).

    Actions of severity "serious" can only be approved at a terminal, one at a time. With --always the call is
    written to fractal.yaml, under `approved`.
    """
    if kind and always:
        raise click.UsageError("--kind and --always exclude each other")
    scope = {"scope": SAME_KIND if kind else ALWAYS} if kind or always else {}
    return send(run, "approve", resume=resume, **scope)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [WHY…]")
@resume_option
def reject(words: tuple[str, ...], resume: bool) -> int:
    """Reject what a run waits for (default: the newest that waits).

    With a reason the run plans again; without one, a rejected plan ends it.
    """
    run, why = run_and_words(words)
    return send(run, "reject", resume=resume, why=why)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[RUN] {good|bad} [WHY…]")
def feedback(words: tuple[str, ...]) -> None:
    """Rate the result of a run (default: the newest) as good or bad; the rating is kept with the run."""
    run, (verdict, *why) = ("", words) if words[0] in ("good", "bad") else (words[0], [*words[1:], ""])
    if verdict not in ("good", "bad"):
        raise click.UsageError("give a rating: good or bad")
    notify(f"kept in {opened().feedback(run, verdict == 'good', ' '.join(why).strip())}")


@click.command()
@run_argument()
def cancel(run: str) -> int:
    """Cancel a run (default: the newest unfinished one); a waiting run ends at the next resume."""
    return send(run, "cancel")


@click.command()
@run_argument()
@click.argument("step", required=False)
@click.option("--force", is_flag=True, help="Also restore files that were changed since.")
@click.option("--redo", is_flag=True, help="Revert the last undo of the run.")
def undo(run: str, step: str | None, force: bool, redo: bool) -> None:
    """Restore what a run (default: the newest), or one step of it, changed in its folder.

    If files were changed since, they are named and nothing is restored.
    """
    run, step = step_of_newest(run, step)
    if redo and step is not None:
        raise click.UsageError("--redo reverts the last undo of a run; leave out the step")
    number = step_number(step)
    fractal = opened()
    lines = fractal.redo(run, force=force) if redo else fractal.undo(run, number, force=force)
    for text in lines:
        notify(text)
    for text in () if redo else unkept_lines(fractal.unkept(run, number)):
        notify(text)
    if not lines:
        notify("nothing to restore: the files are unchanged")
    elif not redo:
        notify(f"to revert this: {command('undo', fractal.find(run))} --redo")
