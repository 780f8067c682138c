"""Learning on request: from a run, from attempts at one task, and a report of its effect."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from kernel.events import now
from kernel.tools.operations import Result
from runtime.evolution.trials import Trials
from runtime.memory.learning.patterns import Pattern, read_practice
from runtime.memory.learning.report import Best, Report, Side
from runtime.memory.learning.report import report as reported

if TYPE_CHECKING:
    from kernel.loop.run_context import RunContext
    from runtime.api.fractal import Fractal
    from runtime.memory.context.awareness import Profile
    from runtime.workspace.runs import RunResult

MOST = 12
"""Attempts at one task."""


def from_run(fractal: Fractal, run: str) -> list[Pattern]:
    """Learn from a run that has ended; one that was learned from before is only compared again."""
    from runtime.memory.learning.attempts import StoredAttempt

    run = fractal.find(run)
    root = fractal.root_document(run)
    if not root.ended:
        raise UsageError(f"run {run} has not ended ({root.meta.status}): its outcome is not known yet")
    memory = fractal.memory
    ask = memory.asked(run)
    learned = memory.learning.end(fractal.documents(run), memory.verdict_on(run), ask)
    if not learned:
        attempts = list(memory.brain.shelf.scan(StoredAttempt, {"run": run}))
        learned = [each for tried in attempts for each in memory.learning.learn(tried, ask)]
    return list({each.name: each for each in learned}.values())


async def attempts(
    fractal: Fractal, task: str, count: int, on_result: Callable[[int, RunResult], None], *, yes: bool = False
) -> list[Pattern]:
    """Try a task several times, each time from the same files, and learn from what differs.

    The changes of an attempt are undone before the next one; those of the last stay if it was accepted.
    Memory replays nothing, so that the attempts differ.
    """
    if not 2 <= count <= MOST:
        raise UsageError(f"--group: {count} is not from 2 to {MOST}; attempts at one task are compared")
    before = {each.name: each for each in fractal.memory.library.all()}
    group = secrets.token_hex(4)
    for number in range(1, count + 1):
        fresh = fractal.anew(recall=False)
        result = await fresh.run(task, group=group, yes=yes)
        on_result(number, result)
        if result.waiting not in ("", "nothing"):
            raise UsageError(
                f"run {result.run} waits for a {result.waiting}; attempts that are compared must end by "
                "themselves: approve with `-y`, or say the task so that nothing is asked"
            )
        if number < count or result.exit != 0:
            fresh.undo(result.run)
    after = fractal.anew().memory.library.all()
    return [each for each in after if before.get(each.name) != each]


def trials_of(fractal: Fractal) -> Trials:
    """The trials of a workspace."""
    return Trials(fractal.workspace.state / "memory" / "trials")


def report(fractal: Fractal) -> Report:
    """The effect of learning in this workspace."""
    from runtime.memory.learning.attempts import StoredAttempt

    memory = fractal.memory
    tried = memory.brain.shelf.scan(StoredAttempt) if memory.there else ()
    library = memory.library
    patterns = {each.name: each for each in (*library.patterns(), *library.all())}
    return replace(reported(tried, [*patterns.values()]), best=best_agents(memory.profiles()))


def best_agents(profiles: Sequence[Profile]) -> list[Best]:
    """The best agent of each task type that some agent has tried often enough."""
    from runtime.memory.context.awareness import FEW, best, totals

    types = sorted({name for each in profiles for name in each.by_type})
    ranked = [(name, *entry) for name in types if (entry := best(totals(profiles, name)))]
    return [
        Best(name, agent, round(record.score, 4), record.samples)
        for name, agent, record in ranked
        if record.samples >= FEW
    ]


def imported(fractal: Fractal, path: Path) -> tuple[list[Pattern], list[Pattern]]:
    """Import a file of good practice; returns the new patterns, and the known ones."""
    memory = fractal.memory
    patterns = read_practice(path, now())
    new: list[Pattern] = []
    merged: list[Pattern] = []
    for pattern in patterns:
        same = next((k for k in memory.library.all() if memory.learning.merging.same(k, pattern)), None)
        if same is not None:
            merged.append(same)
        elif added := memory.library.add(pattern):
            new.append(added)
    return new, merged


async def act(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """A call of the tool: list patterns, report, or learn from a run that has ended."""
    action = str(args.get("action") or "patterns")
    if action == "report":
        return Result("\n".join(in_words(report(fractal))))
    if action == "from":
        run = str(args.get("run") or "")
        if not run:
            raise UsageError("action from needs `run`: the run to learn from")
        return Result(lines(from_run(fractal, run)) or "nothing new: no difference beyond chance")
    types = fractal.brain.kinds.of(str(args["task"])) if args.get("task") else ()
    library = fractal.memory.library
    patterns = library.relevant(types) if types else library.patterns()
    return Result(lines(patterns) or "nothing was learned yet")


def lines(patterns: Sequence[Pattern]) -> str:
    """Patterns as a list, each with its types and how sure it is."""
    return "\n".join(f"{each.shown()} [{', '.join(each.types)}; {each.grade()}]" for each in patterns)


def in_words(report: Report) -> list[str]:
    """The report, a line each."""
    coverage = "no task type has three attempts yet"
    if report.of:
        coverage = f"{report.covered} of {report.of} task types with three attempts have a pattern"
    lines = [f"patterns: {report.patterns} in use, {report.off} switched off", f"coverage: {coverage}"]
    lines.append(f"{'all':<12} {_compared(report.before, report.after)}")
    lines += [f"{each.type:<12} {_compared(each.before, each.after)}" for each in report.types]
    lines += [
        f"best agent for {each.type}: {each.agent} (score {each.score:.2f}, {each.samples} attempts)"
        for each in report.best
    ]
    repeated = [each for each in report.mistakes if each.repeated or each.unseen]
    lines += [
        f"repeated: {each.pattern}: {each.repeated} times though it was shown, {each.unseen} times where it "
        f"was not, of {each.of} attempts"
        for each in repeated
    ]
    if report.mistakes and not repeated:
        lines.append("repeated: no mistake that a pattern warns of was made again")
    return lines


def _compared(before: Side, after: Side) -> str:
    return f"before: {_side(before)}; after: {_side(after)}"


def _side(side: Side) -> str:
    if not side.attempts:
        return "none"
    return (
        f"{side.success:.0%} of {side.attempts} went well, {side.seconds:.1f} s, {side.tokens:,.0f} tokens, "
        f"{side.calls:.1f} calls each"
    )
