"""The ways in which tasks like a new one were done: of each, how often it went well, and one example.

A run that corrected a file, with a command that verified it, tells the correction; others tell their steps.
Two corrections are the same way when they change a line in the same manner, in files of the same name. Other
runs went the same way when their last plans called the same tools with the same choices; what only differs as
the tasks' own words do (names, numbers) is no other way. A way that went wrong as often as well is no
example, and of several runs that went the same way one is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.document.redaction import redacted
from kernel.errors import FractalError
from kernel.store.files import FileStore
from runtime.memory.context.corrections import Correction, correction_of
from runtime.memory.turns import came_to_nothing
from runtime.secrets.redaction import redact, redactor
from runtime.text.lines import flat, shortened

if TYPE_CHECKING:
    from runtime.memory.episodes.experience import Experience

MOST_STEPS = 40
"""Of a document that is read for its way: longer ones are no example."""
TASK_CHARS = 160
ARGUMENT_CHARS = 100
EXAMPLE_CHARS = 400
"""Of a way, what is shown."""
CORRECTED_CHARS = 205
"""Of a way that is a correction: about 60 tokens."""
CORRECTED_TASK_CHARS = (40, 64)
"""Of its task: at least, and at most."""
LESS_LIKE = 0.1
"""A correction is left out if its task is so much less like the new one than the most similar."""
_WORD = re.compile(r"[^\W\d_]+")
_MASKED = re.compile(r"…(?:[\s_-]*…)*")


@dataclass
class Way:
    """One way, with the runs that went it, the most similar task first."""

    text: str
    score: float  # how like the new task the most similar one is
    good: list[str] = field(default_factory=list[str])  # runs
    bad: int = 0
    tools: str = ""
    weight: float = 0.0  # runs that it went well in, by how often its tools did
    corrects: bool = False  # it is told as a correction


def ways(near: Iterable[tuple[Experience, float]], state: Path) -> list[Way]:
    """The ways of experiences, each with how like the new task it is; those that most runs went first.

    Where the same tools went wrong otherwise, a way counts less: that it went well may have been luck.
    """
    by_shape: dict[str, Way] = {}
    by_tools: dict[str, list[int]] = {}  # went well, did not
    for experience, score in _one_of_each_run(near):
        if experience.success is None or len(experience.moves) > MOST_STEPS:
            continue
        document = _document(experience, state)
        steps = last_plan(document) if document else []
        correction = _correction(document, steps, (state / experience.document).parent) if document else None
        shape = shaped(steps, experience.text) if steps else ", ".join(experience.moves)
        if correction:
            shape = to_json([Path(correction.path).name, correction.before, correction.after])
        tools = " ".join(step.tool for step in steps) if steps else shape
        way = by_shape.setdefault(shape, Way("", score, tools=tools, corrects=correction is not None))
        outcomes = by_tools.setdefault(tools, [0, 0])
        outcomes[0 if experience.success else 1] += 1
        if not experience.success:
            way.bad += 1
            continue
        if not way.good:
            way.text, way.score = _example(experience, steps, correction), score
        way.good.append(experience.run)
    helping = [way for way in by_shape.values() if len(way.good) > way.bad]
    corrections = sorted((way for way in helping if way.corrects), key=lambda way: -way.score)
    near_enough = max((way.score for way in corrections), default=0.0) - LESS_LIKE
    others = [way for way in helping if not way.corrects]
    for way in others:
        well, badly = by_tools[way.tools]
        way.weight = len(way.good) * (well + 1) / (well + badly + 2)
    most = max((way.weight for way in others), default=0.0)
    usual = sorted(
        (way for way in others if 2 * way.weight >= most), key=lambda way: (-way.weight, -way.score)
    )
    return [*(way for way in corrections if way.score >= near_enough), *usual]


def _one_of_each_run(near: Iterable[tuple[Experience, float]]) -> list[tuple[Experience, float]]:
    """Of each run the most similar loop, the root before the loops below it."""
    found: dict[str, tuple[Experience, float]] = {}
    for experience, score in near:
        if experience.run not in found or experience.level == "system":
            found[experience.run] = experience, score
    return list(found.values())


def _document(experience: Experience, state: Path) -> Document | None:
    """The document of an experience; None where it is gone or cannot be read."""
    if not experience.document:
        return None  # somebody else's agent reported it
    path = state / experience.document
    with suppress(FractalError, OSError):
        return FileStore(path.parent).peek(path.stem)
    return None


def _correction(document: Document, steps: Sequence[Step], folder: Path) -> Correction | None:
    """What a run corrected, if a command verified it, or if its steps alone do not say what was done."""
    found = correction_of(document, folder)
    silent = any(step.args is None for step in steps)
    return found if found and (found.command or silent) else None


def last_plan(document: Document) -> list[Step]:
    """The steps of the last attempt as they were planned; as they went where DO had to say how."""
    went = [document.steps[n] for n in sorted(document.steps) if n > document.meta.base]
    if document.meta.status == "complete":
        went = [step for step in went if not came_to_nothing(step)]
    planned = document.planned
    return [
        planned[step.n] if step.n in planned and planned[step.n].args is not None else step for step in went
    ]


def shaped(steps: Sequence[Step], task: str) -> str:
    """What was chosen: tools and arguments, without the words and numbers that are the task's own."""
    own = {word.casefold() for word in _WORD.findall(task)}
    return to_json([[step.tool, _masked(step.args or {}, own)] for step in steps])


def _masked(value: Any, own: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _masked(each, own) for key, each in sorted(value.items())}  # type: ignore[misc]
    if isinstance(value, list | tuple):
        return [_masked(each, own) for each in value]  # type: ignore[misc]
    if isinstance(value, bool) or value is None:
        return value
    text = _WORD.sub(lambda hit: "…" if hit[0].casefold() in own else hit[0], str(value))
    return _MASKED.sub("…", re.sub(r"\d+", "…", text))


def _example(experience: Experience, steps: Sequence[Step], correction: Correction | None) -> str:
    task = flat(redact(experience.text))
    if correction:
        least, most = CORRECTED_TASK_CHARS
        told = correction.told(CORRECTED_CHARS - min(len(task), least))
        return f"“{shortened(task, max(least, min(most, CORRECTED_CHARS - len(told))))}”: {told}"
    task = shortened(task, TASK_CHARS)
    if not steps:
        return f"“{task}” went well with: {', '.join(experience.moves) or 'no step'}"
    return shortened(f"“{task}” was solved by: {'; '.join(_calls(steps))}", EXAMPLE_CHARS)


def _calls(steps: Sequence[Step]) -> Iterator[str]:
    hide = redactor()  # before anything is cut: half of a secret has no form
    for step in steps:
        args = {key: _short(value) for key, value in redacted(step.args or {}, hide).items()}
        if args or not step.what:
            yield f"{step.tool} {to_json(args)}"
        else:
            yield f"{step.tool or 'subtask'}: {_short(hide(step.what))}"


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else to_json(value)
    return value if len(text) <= ARGUMENT_CHARS else shortened(text, ARGUMENT_CHARS)
