"""`fractal answer`, `approve`, `reject`, `feedback`, `cancel` and `undo`: what a person has to say."""

from __future__ import annotations

import sys

import click

from runtime.cli.session import Session, command, decider, opened, run_argument, tell
from runtime.cli.view import view


def _drop(run: str, kind: str, *, resume: bool = False, **values: str) -> int:
    """Leave the message and say who will take it: a process at work, this one, or the next `resume`."""
    fractal = opened()
    name = fractal.find(run)
    waits = (fractal.document(name).meta.waiting or {}).get("for")
    if fractal.tell(name, kind, by=decider(), **values):
        tell(f"run {name} is at work and takes it from its inbox")
    elif resume:
        session = Session(view())
        going = session.open()
        return session.conclude(going, session.drive(going.resume(name)))
    else:
        early = "; it does not wait for an answer now" if kind == "answer" and waits != "person" else ""
        then = "ends with" if kind == "cancel" else "goes on with"
        tell(f"kept in the inbox of run {name}{early}; it {then}: {command('resume', name)}")
    return 0


_resume = click.option("--resume", is_flag=True, help="Go on with the run at once.")


@click.command()
@run_argument()
@click.argument("words", nargs=-1, required=True, metavar="TEXT…")
@_resume
def answer(run: str, words: tuple[str, ...], resume: bool) -> int:
    """Answer the question that a run waits for; `-` reads the answer from standard input."""
    text = sys.stdin.read() if words == ("-",) else " ".join(words)
    if not text.strip():
        raise click.UsageError("the answer is empty")
    return _drop(run, "answer", resume=resume, text=text.strip())


@click.command()
@run_argument()
@_resume
def approve(run: str, resume: bool) -> int:
    """Approve the plan or the steps that a run waits for; a serious danger only at a terminal."""
    return _drop(run, "approve", resume=resume)


@click.command()
@run_argument()
@click.argument("why", nargs=-1, metavar="[WHY…]")
@_resume
def reject(run: str, why: tuple[str, ...], resume: bool) -> int:
    """Reject what a run waits for: with a reason it plans anew, without one a rejected plan ends it."""
    return _drop(run, "reject", resume=resume, why=" ".join(why))


@click.command()
@run_argument()
@click.argument("verdict", type=click.Choice(["good", "bad"]))
@click.argument("why", nargs=-1, metavar="[WHY…]")
def feedback(run: str, verdict: str, why: tuple[str, ...]) -> None:
    """Say whether a run's result was good or bad, and why; it is kept with the run."""
    path = opened().feedback(run, verdict == "good", " ".join(why))
    tell(f"kept in {path}")


@click.command()
@run_argument()
def cancel(run: str) -> int:
    """Cancel a run: a process at work stops it and saves; one that waits is ended by the next resume."""
    return _drop(run, "cancel")


@click.command()
@run_argument(required=False)
@click.argument("step", required=False, type=int)
@click.option("--force", is_flag=True, help="Also put back files that were changed since.")
@click.option("--redo", is_flag=True, help="Take the last undo of the run back.")
def undo(run: str, step: int | None, force: bool, redo: bool) -> None:
    """Bring back what a run (the newest by default), or one step of it, changed in its folder.

    Nothing is done where files were changed since; they are named.
    """
    if redo and step is not None:
        raise click.UsageError("--redo takes the last undo of a run back, and no step")
    fractal = opened()
    lines = fractal.redo(run, force=force) if redo else fractal.undo(run, step, force=force)
    for text in lines:
        tell(text)
    if not lines:
        tell("nothing to put back: the files are as they were")
    elif not redo:
        tell(f"to take this back: {command('undo', fractal.find(run))} --redo")
