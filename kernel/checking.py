"""What CHECK reads, recorded by the kernel alone: criteria before and after, files changed, failed steps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kernel.children import skills_of
from kernel.errors import DocumentError, OperationFailed, ReplyError
from kernel.evidence import Snapshot, changes, check_criterion, cut
from kernel.operations import OperationContext
from kernel.phases import REFERENCE
from kernel.references import substitute
from kernel.screening import shown_name
from kernel.steps import GOOD
from kernel.text import to_json
from kernel.trying import trials
from kernel.views import Views
from kernel.world import Held

DIFF_CHARS = 2000
"""Of a changed file's diff, what CHECK sees at most: at 600 a reader had to ask for the file again."""
_EFFECTFUL = frozenset({"write", "shell"})
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
    bash = held.world.catalogue.tools.get("bash")
    for criterion in success:
        if bash and "run" in criterion and (dangers := held.world.guard(bash, {"command": criterion["run"]})):
            raise ReplyError(f"success: {criterion['run']}: {dangers[0]}; a criterion only looks")
        if "run" in criterion and held.world.sandbox.mode == "off":
            before.append(None)  # nothing keeps it from changing something before anybody agreed
        elif "step" in criterion or (REFERENCE.search(str(criterion.get("run", "")))):
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


def snapshot(held: Held) -> None:
    """Keep what the folder looks like before step 1, when the plan may change it."""
    effects: set[str] = set()
    for step in held.doc.planned.values():
        tool = held.world.catalogue.tools.get(step.tool)
        effects |= set(tool.effects) if tool and not tool.guided else _EFFECTFUL
    if effects & _EFFECTFUL:
        texts = "shell" in effects or len(effects) > 1
        taken = Snapshot.take(held.world.folder, held.world.protected, texts=texts)
        held.world.store.shelve(_baseline_name(held), json.dumps(taken.to_json(), ensure_ascii=True))


def _baseline_name(held: Held) -> str:
    return f"{held.id}.before-{held.doc.meta.attempt}.json"


async def gather(held: Held) -> tuple[list[Finding], list[str], str]:
    """After the last step: findings, one line a changed file, and the diffs of changed text."""
    first = _first_snapshot(held)
    findings: list[Finding] = []
    for trial in await trials(held):
        findings.append(Finding({"draft": trial.unit}, False, trial.passed, trial.note))
    for criterion, before in _criteria(held):
        after, note = await _after(held, criterion, first)
        findings.append(Finding(criterion, before, after, note))
    if first is None:
        return findings, [], ""
    changed = changes(first, Snapshot.take(held.world.folder, held.world.protected, texts=True))
    lines = [_change_line(each) for each in changed]
    named = [(shown_name(each.path), each.diff) for each in changed if each.diff]
    diffs = [f"{name}\n{cut(diff, DIFF_CHARS, name)}" for name, diff in named]
    return findings, lines, "\n".join(diffs)


def _change_line(change: Any) -> str:
    return f"{change.kind} {shown_name(change.path)}" + (
        f" {change.size} bytes" if change.kind != "removed" else ""
    )


def _first_snapshot(held: Held) -> Snapshot | None:
    name = f"artifacts/{_baseline_name(held)}"
    if not (held.world.artifacts / _baseline_name(held)).is_file():
        return None
    try:
        return Snapshot.from_json(json.loads(held.world.store.unshelve(name)))
    except (DocumentError, ValueError, TypeError, KeyError, AttributeError):
        held.emit(
            "warning", message=f"{held.world.artifacts.parent / name} is broken: no changes can be shown"
        )
        return None


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


async def _after(held: Held, criterion: dict[str, Any], first: Snapshot | None) -> tuple[bool | None, str]:
    try:
        filled = (
            {**criterion, **substitute({"run": criterion["run"]}, Views(held))}
            if "run" in criterion
            else criterion
        )
    except (OperationFailed, DocumentError) as error:
        return False, str(error)

    def result_of(n: int) -> str | None:
        step = held.doc.steps.get(n)
        return Views(held)[n].result if step and step.state in GOOD else None

    verdict = await check_criterion(filled, _context(held), result_of, first)
    return verdict.passed, verdict.note


def _context(held: Held) -> OperationContext:
    world = held.world
    settings = world.policy.settings
    places = world.catalogue.places(skills_of(held.doc))
    return OperationContext(
        world.folder, world.sandbox, settings, 60.0, world.protected, places=places, private=world.private
    )


def marks(success: Sequence[Mapping[str, Any]], before: Sequence[bool | None]) -> str:
    """The note `baseline` of §2: one line a criterion."""
    words: Mapping[bool | None, str] = {True: "holds now", False: "fails now", None: "to be judged"}
    return "\n".join(
        f"{words[each]}: {to_json(dict(one))}" for one, each in zip(success, before, strict=True)
    )


def proven(held: Held, findings: Sequence[Finding]) -> bool:
    """Whether some criterion failed before and holds now, on more than an unverified child's word."""
    for finding in findings:
        if finding.after is True and finding.before is not True:
            step = held.doc.steps.get(int(finding.criterion.get("step", 0)))
            if step is None or not step.evidence.get("unverified"):
                return True
    return False
