"""`fractal review`, `nudge`, `veto`, `decisions`: who decides about what workers plan, and who did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runtime.cli.diffs import print_changes
from runtime.cli.output import emit, notify, print_line, print_table
from runtime.cli.person import resume_option, send
from runtime.cli.session import command, decider, json_option, opened, run_and_words, run_argument

if TYPE_CHECKING:
    from runtime.nervous.waiting import Waits

CHOSEN = 60
"""Characters of a decision's choice and verdicts in a table."""
DIFF_LINES = 60
"""Lines of the changes that one plan would make."""


@click.command()
@run_argument()
@json_option("Print a list of objects.")
def review(run: str) -> None:
    """Show what waits for a decision: of one run, or of all of them.

    Decide with `fractal approve`, `nudge`, `reject`, `veto` or `answer`.
    """
    fractal = opened()
    name = fractal.find(run) if run else ""
    waits = [each for each in fractal.review() if name in ("", each.run)]
    emit(waits)
    for number, each in enumerate(waits):
        if number:
            click.echo()
        _print(each)
    if not waits:
        notify(f"run {name} waits for no decision" if name else "nothing waits for a decision")


def _print(waits: Waits) -> None:
    print_line(f"{waits.run}  {waits.since[:16].replace('T', ' ')}  {waits.kind}", bold=True)
    print_line(f"task: {waits.task}")
    for line in waits.about():
        print_line(line, fg="cyan" if line.startswith("oversight: ") else None)
    if waits.changes:
        click.echo()
        print_changes(waits.changes, most=DIFF_LINES)
    if waits.human:
        notify(f"decided: {waits.human}; continue with: {command('resume', waits.run)}")
        return
    ways = [("answer", "…")] if waits.kind == "question" else [("approve",), ("nudge", "…"), ("reject", "…")]
    notify(
        " or ".join(command(name, waits.run, *words) for name, *words in [*ways, ("veto",)]), "bright_black"
    )


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TEXT…")
@resume_option
def nudge(words: tuple[str, ...], resume: bool) -> int:
    """Send a plan or step back (default: of the newest run that waits), and say what to do differently.

    The run plans again, and its prompt has the text.
    """
    run, why = run_and_words(words, least=1)
    return send(run, "nudge", resume=resume, why=why)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [WHY…]")
@resume_option
def veto(words: tuple[str, ...], resume: bool) -> int:
    """End a run (default: the newest unfinished one) by a decision of yours, whatever oversight said.

    It is in the decision log, unlike a cancelled run.
    """
    run, why = run_and_words(words)
    return send(run, "veto", resume=resume, why=why)


@click.command()
@click.option("--task-type", "task_type", metavar="TYPE", default="", help="Only tasks of this type.")
@click.option("--review-again", "again", metavar="TYPE", help="Review calls in tasks of this type again.")
@json_option("Print an object: decisions, settled.")
def decisions(task_type: str, again: str | None) -> None:
    """Show what workers chose, what oversight and you said, and what came of it; newest last.

    Below stands how often oversight approved which calls in a row: after ten times they need no review.
    """
    fractal = opened()
    if again:
        fractal.nerves.log.review_again(again, decider())
        notify(f"dangerous calls in tasks of the type {again} are reviewed again")
        return
    found = fractal.decisions(task_type)
    settled = [each for each in fractal.nerves.log.settled() if task_type in ("", each.task_type)]
    emit({"decisions": found, "settled": settled})
    if not found:
        notify("nothing had to be decided yet")
        return
    shown = {
        "RUN": "run",
        "TYPE": "task_type",
        "CHOSE": lambda each: each.chose,
        "CONFIDENCE": "confidence",
        "OVERSIGHT": lambda each: each.oversight or "",
        "HUMAN": lambda each: each.human or "",
        "OUTCOME": lambda each: each.outcome or "–",
    }
    print_table(shown, found, cut=(2, 4, 5))
    if settled:
        click.echo()
        columns = {
            "TYPE": "task_type",
            "CALL": "call",
            "APPROVED": "approvals",
            "REVIEW": lambda each: "no more" if each.holds else "yes",
        }
        print_table(columns, settled, right=(2,))
        if any(each.holds for each in settled):
            notify(f"review them again: {command('decisions', '--review-again', '…')}", "bright_black")
