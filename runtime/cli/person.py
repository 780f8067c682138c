"""`fractal answer`, `approve`, `reject`, `feedback`, `cancel` and `undo`: what a person has to say."""

from __future__ import annotations

import sys

import click

from runtime.cli.session import command, opened, run_argument, tell


def _drop(run: str, kind: str, **values: str) -> None:
    """Leave the message and say who will take it: a process at work, or the next `resume`."""
    fractal = opened()
    name = fractal.find(run)
    waits = (fractal.document(name).meta.waiting or {}).get("for")
    if fractal.tell(name, kind, **values):
        tell(f"run {name} is at work and takes it from its inbox")
    else:
        early = "; it does not wait for an answer now" if kind == "answer" and waits != "person" else ""
        tell(f"kept in the inbox of run {name}{early}; go on with: {command('resume', name)}")


@click.command()
@run_argument()
@click.argument("words", nargs=-1, required=True, metavar="TEXT…")
def answer(run: str, words: tuple[str, ...]) -> None:
    """Answer the question that a run waits for; `-` reads the answer from standard input."""
    text = sys.stdin.read() if words == ("-",) else " ".join(words)
    if not text.strip():
        raise click.UsageError("the answer is empty")
    _drop(run, "answer", text=text.strip())


@click.command()
@run_argument()
def approve(run: str) -> None:
    """Approve the plan or the steps that a run waits for."""
    _drop(run, "approve")


@click.command()
@run_argument()
@click.argument("why", nargs=-1, metavar="[WHY…]")
def reject(run: str, why: tuple[str, ...]) -> None:
    """Reject what a run waits for: with a reason it plans anew, without one a rejected plan ends it."""
    _drop(run, "reject", why=" ".join(why))


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
def cancel(run: str) -> None:
    """Cancel a run: a process at work stops it and saves; one that waits is ended by the next resume."""
    _drop(run, "cancel")


@click.command()
@run_argument()
@click.argument("step", required=False, type=int)
def undo(run: str, step: int | None) -> None:
    """Put back the files that a run, or one step of it, replaced; files changed since are left alone."""
    lines = opened().undo(run, step)
    for text in lines:
        tell(text)
    if not lines:
        tell("nothing to put back")
