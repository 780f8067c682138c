"""What CHECK reads, recorded by the kernel alone: criteria before and after, files changed, failed steps."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from kernel.changes import Change, changes
from kernel.children import skills_of
from kernel.errors import DocumentError, FractalError, OperationFailed, ReplyError
from kernel.evidence import Since, check_criterion
from kernel.operations import OperationContext
from kernel.permits import ungranted
from kernel.process import whole
from kernel.references import SHELL, in_shell, references, substitute
from kernel.screening import cut, shown_name
from kernel.steps import GOOD
from kernel.text import to_json
from kernel.trying import trials
from kernel.views import Views, results_of
from kernel.world import Held

DIFF_CHARS = 2000
"""Of a changed file's diff, what CHECK sees at most: at 600 a reader had to ask for the file again."""
_WORDS: Mapping[bool | None, str] = {True: "pass", False: "FAIL", None: "judge"}
_LINE = re.compile(r"- (pass|FAIL|judge) (?=\{)")
_REST = re.compile(r" \(before: (pass|FAIL|judge)\) → (.*)")


@dataclass(frozen=True)
class Finding:
    """One criterion: whether it held before step 1 and after the last (None: not to be decided by code)."""

    criterion: Mapping[str, Any]
    before: bool | None
    after: bool | None
    note: str

    def line(self) -> str:
        """As it stands in §4, one line."""
        return (
            f"- {_WORDS[self.after]} {to_json(dict(self.criterion))} (before: {_WORDS[self.before]}) → "
            f"{to_json(self.note)[1:-1]}"
        )

    @staticmethod
    def read(line: str) -> Finding | None:
        """The finding that a line of §4 tells; None for any other line."""
        hit = _LINE.match(line)
        if not hit:
            return None
        try:
            criterion, end = json.JSONDecoder().raw_decode(line, hit.end())
            rest = _REST.fullmatch(line, end)
            note = json.loads(f'"{rest[2]}"') if rest else ""
        except ValueError:
            return None
        if not rest:
            return None
        back = {word: value for value, word in _WORDS.items()}
        return Finding(criterion, back[rest[1]], back[hit[1]], note)

    def as_dict(self) -> dict[str, Any]:
        """As responders get it with the ask."""
        return {
            "criterion": dict(self.criterion),
            "before": self.before,
            "after": self.after,
            "note": self.note,
        }


async def baseline(held: Held, success: Sequence[Mapping[str, Any]], *, retry: bool) -> list[bool | None]:
    """Whether each criterion holds before step 1; refuses a plan whose criteria could prove nothing."""
    before: list[bool | None] = []
    unseen = held.world.sandbox.mode == "off" and held.doc.meta.extra.get("plan_only")  # by a person yet
    bash = held.world.catalogue.tools.get("bash")
    for criterion in success:
        if bash and "run" in criterion and (dangers := held.world.guard(bash, {"command": criterion["run"]})):
            raise ReplyError(f"success: {criterion['run']}: {dangers[0]}; a criterion only looks")
        if "run" in criterion and (unseen or _not_granted(held, criterion)):
            before.append(None)
        elif "step" in criterion or references(in_shell(str(criterion.get("run", "")))):
            before.append(False)  # there is no result yet
        elif "same" in criterion:
            before.append(True)
        else:
            before.append((await check_criterion(criterion, _context(held), lambda _: None, None)).passed)
    judged = any("judge" in criterion for criterion in success)
    if not retry and False not in before and None not in before and not judged:
        raise ReplyError(
            "every success criterion holds already; at least one must fail now and hold once done"
        )
    return before


def _not_granted(held: Held, criterion: Mapping[str, Any]) -> str:
    """Why a command is not run as a criterion; "" when it may be.

    In the sandbox it can only look. Without one it may do what a step of bash may, and needs what that needs.
    """
    bash = held.world.catalogue.tools.get("bash")
    if held.world.sandbox.mode != "off" or bash is None:
        return ""
    effects, dangers = ungranted(held.world, bash, {"command": criterion["run"]})
    return "; ".join([*(f"it may {effect}" for effect in effects), *map(str, dangers)])


async def gather(held: Held) -> tuple[list[Finding], list[str], str]:
    """After the last step: findings, one line a changed file, and the diffs of changed text.

    What changed is told against the start of the run, whatever attempt or loop this is.
    """
    findings: list[Finding] = []
    for trial in await trials(held):
        findings.append(Finding({"draft": trial.unit}, False, trial.passed, trial.note))
    since = await _since_the_start(held)
    for criterion, before in _criteria(held):
        after, note = await _after(held, criterion, since)
        findings.append(Finding(criterion, before, after, note))
    snapshots = held.world.snapshots
    if snapshots is None or since is None or since.unknown:
        return findings, [], ""
    changed = await whole(partial(changes, snapshots, since.moved))
    lines = [_change_line(each) for each in changed]
    named = [(shown_name(each.path), each.diff) for each in changed if each.diff]
    diffs = [f"{name}\n{cut(diff, DIFF_CHARS, name)}" for name, diff in named]
    return findings, lines, "\n".join(diffs)


async def _since_the_start(held: Held) -> Since | None:
    """What has become of the folder since the run's first step that could change it; None without one."""
    snapshots = held.world.snapshots
    if snapshots is None:
        return None
    first = snapshots.first(held.world.run)
    if not first:
        return Since({}, dict, snapshots.too_large) if snapshots.too_large else None
    try:
        async with snapshots.turn():
            last = await snapshots.taken(held.world.run)
            moved = await whole(partial(snapshots.trees.changes, first, last))
    except FractalError as error:
        held.emit("warning", message=f"no changes can be shown: {error}")
        return Since({}, dict, str(error))

    def there() -> Collection[str]:
        return [path for path, state in snapshots.trees.states(first).items() if not stat.S_ISDIR(state.mode)]

    return Since(moved, there)


def _change_line(change: Change) -> str:
    return f"{change.kind} {shown_name(change.path)}" + (
        f" {change.size} bytes" if change.kind != "removed" else ""
    )


def _criteria(held: Held) -> list[tuple[dict[str, Any], bool | None]]:
    lines = held.doc.text(2, "success criteria").splitlines()
    success = [_criterion(line) for line in lines if line.strip()]
    marks = [line.partition(" ")[0] for line in held.doc.text(2, "baseline").splitlines()]
    known: Mapping[str, bool | None] = {"holds": True, "fails": False}
    return [(each, known.get(marks[at]) if at < len(marks) else None) for at, each in enumerate(success)]


def _criterion(line: str) -> dict[str, Any]:
    """A criterion of §2; a person's own words are for CHECK to judge."""
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {"judge": line}


async def _after(held: Held, criterion: dict[str, Any], since: Since | None) -> tuple[bool | None, str]:
    context = _context(held)
    if "run" in criterion:
        try:
            command = substitute(in_shell(str(criterion["run"])), Views(held))[SHELL]
            criterion = {**criterion, "run": command}
            context = replace(context, results=results_of(held, command))
        except (OperationFailed, DocumentError) as error:
            return False, str(error)
        if why := _not_granted(held, criterion):
            return None, f"not run: that needs a person's approval ({why})"

    def result_of(n: int) -> str | None:
        step = held.doc.steps.get(n)
        return Views(held)[n].result if step and step.state in GOOD else None

    verdict = await check_criterion(criterion, context, result_of, since)
    return verdict.passed, verdict.note


def _context(held: Held) -> OperationContext:
    return held.world.context(None, skills_of(held.doc))


def marks(success: Sequence[Mapping[str, Any]], before: Sequence[bool | None]) -> str:
    """The note `baseline` of §2: one line a criterion."""
    words: Mapping[bool | None, str] = {True: "holds now", False: "fails now", None: "to be judged"}
    return "\n".join(
        f"{words[each]}: {to_json(dict(one))}" for one, each in zip(success, before, strict=True)
    )


def proven(held: Held, findings: Sequence[Finding]) -> bool:
    """Whether some criterion failed before and holds now, on more than an unverified child's word."""
    for finding in findings:
        if finding.after is True and finding.before is False:
            step = held.doc.steps.get(int(finding.criterion.get("step", 0)))
            if step is None or not step.evidence.get("unverified"):
                return True
    return False
