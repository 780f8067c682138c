"""Where a procedure's words come from: its task, its steps' results, or what its planner saw.

What came from what was there then is no part of a procedure: in another folder it would have been another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kernel.document import Document, Step
from kernel.offering import found_by_itself
from runtime.memory.procedural.leaves import tokens

LEAST_RESULT = 2
"""Characters of a result that is looked for in later arguments: shorter ones are chance."""
LONGEST_RESULT = 2_000
LONGEST_OUTPUT = 20_000
"""Characters of an output that is looked through for what it tells."""
FOREIGN = 6
"""Words of an argument that are not in the task, from which on it counts as text that was made for it."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\d)")
_NAME = re.compile(r"(?<![\w-])[\w-]+(?:[./][\w-]+)+")
_WORD = re.compile(r"[^\W\d_]{3,}")
_ANY_WORD = re.compile(r"[^\W\d_]+")
REFERENCE = re.compile(r"\{\{.*?\}\}")


@cache
def reporting(systems: tuple[Path, ...]) -> frozenset[str]:
    """The words that only report, of `memory/reports.md` in these system folders."""
    found: set[str] = set()
    for folder in systems:
        path = folder / "memory" / "reports.md"
        if path.is_file():
            _, _, lists = path.read_text("utf-8").partition("\n## ")
            found |= {word.lower() for line in lists.splitlines() for word in _ANY_WORD.findall(line)}
    return frozenset(found)


def seen_only(document: Document, steps: Sequence[Mapping[str, Any]]) -> str:
    """A name that the plan has from the folder or an earlier attempt, not from the task; "" for none."""
    heard = [n.text for n in document.section(1).notes if n.key == "context" and found_by_itself(n.source)]
    heard += [note.text for fold in document.section(2).folds for note in fold.notes]
    heard += [step.result or "" for n, step in document.steps.items() if n not in document.planned]
    known = {name for text in heard for name in _NAME.findall(text)}
    used = {name for step in steps for name in _NAME.findall(json.dumps(step["args"], ensure_ascii=False))}
    return min(used.difference(_NAME.findall(document.text(1, "task"))) & known, default="")


def foreign(task: str, value: Any) -> bool:
    """Whether an argument holds text of the planner's own, such as a poem or a program."""
    if isinstance(value, str):
        known = {word.lower() for word in _WORD.findall(task)}
        return sum(word.lower() not in known for word in _WORD.findall(REFERENCE.sub("", value))) >= FOREIGN
    if isinstance(value, Mapping):
        return any(foreign(task, each) for each in value.values())
    return isinstance(value, list | tuple) and any(foreign(task, each) for each in value)


def from_results(args: dict[str, Any], ended: Sequence[Step], now: Step) -> dict[str, Any]:
    """Arguments that were asked for, with references where they repeat an earlier step's result."""
    for name, value in args.items():
        for step in ended:
            result = step.result or ""
            if step.n < now.n and LEAST_RESULT <= len(result) <= LONGEST_RESULT and value == result:
                args[name] = f"{{{{ steps[{step.n}].result }}}}"
    return args


def unfounded(task: str, value: Any) -> str:
    """Something in arguments that were filled in after results were seen, and that is not in the task."""
    if isinstance(value, Mapping):
        return next((found for each in value.values() if (found := unfounded(task, each))), "")
    if isinstance(value, list | tuple):
        return next((found for each in value if (found := unfounded(task, each))), "")
    if value is None or isinstance(value, bool):
        return ""
    text = REFERENCE.sub("", str(value)).strip()
    return "" if text in task else text[:80]


def output(
    text: str, ended: Sequence[Step], numbers: Mapping[int, int], task: str, reports: Collection[str]
) -> tuple[str, str]:
    """The output with the results that it shows as references, and the first thing that it tells beside them.

    Numbers and words may stand in the task, words may only report; what else is told was judged by somebody.
    """
    made = text
    for step in reversed(ended):
        result = (step.result or "").strip()
        if result and result == text.strip():
            return f"{{{{ steps[{numbers[step.n]}].result }}}}", ""
        if len(text) > LONGEST_OUTPUT:
            continue
        if result and len(result) <= LONGEST_RESULT:
            whole = re.compile(rf"(?<![\w.]){re.escape(result)}(?![\w]|\.\d)")
            made = whole.sub(lambda _: f"{{{{ steps[{numbers[step.n]}].result }}}}", made)  # noqa: B023
    if len(text) > LONGEST_OUTPUT:
        return made, f"{text[:40]}…"
    rest = REFERENCE.sub("", made)
    told = {token.value for token in tokens(task) if token.kind == "number"}
    for hit in _NUMBER.finditer(rest):
        value = next((token.value for token in tokens(hit[0]) if token.kind == "number"), None)
        if value not in told:
            return made, hit[0]
    known = {word.lower() for word in _ANY_WORD.findall(task)}
    beside = (word for word in _ANY_WORD.findall(rest) if word.lower() not in known)
    return made, next((word for word in beside if word.lower() not in reports), "")
