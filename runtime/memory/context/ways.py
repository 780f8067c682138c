"""The ways in which tasks like a new one were done: of each, how often it went well, and one example.

Two runs went the same way when their last plans called the same tools with the same choices; what only
differs as the tasks' own words do (names, numbers) is no other way. A way that went wrong as often as well is
no example, and of several runs that went the same way one is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.errors import FractalError
from kernel.store.files import FileStore

if TYPE_CHECKING:
    from runtime.memory.episodes.experience import Experience

MOST_STEPS = 40
"""Of a document that is read for its way: longer ones are no example."""
TASK_CHARS = 160
ARGUMENT_CHARS = 100
EXAMPLE_CHARS = 400
"""Of a way, what is shown."""
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


def ways(
    near: Iterable[tuple[Experience, float]], state: Path, redact: Callable[[str], str] = lambda text: text
) -> list[Way]:
    """The ways of experiences, each with how like the new task it is; those that most runs went first.

    Where the same tools went wrong otherwise, a way counts less: that it went well may have been luck.
    """
    by_shape: dict[str, Way] = {}
    by_tools: dict[str, list[int]] = {}  # went well, did not
    for experience, score in near:
        if experience.success is None or len(experience.moves) > MOST_STEPS:
            continue
        steps = _steps(experience, state)
        shape = shaped(steps, experience.text) if steps else ", ".join(experience.moves)
        tools = " ".join(step.tool for step in steps) if steps else shape
        way = by_shape.setdefault(shape, Way("", score, tools=tools))
        outcomes = by_tools.setdefault(tools, [0, 0])
        outcomes[0 if experience.success else 1] += 1
        if not experience.success:
            way.bad += 1
            continue
        if not way.good:
            way.text, way.score = redact(_example(experience, steps)), score
        way.good.append(experience.run)
    helping = [way for way in by_shape.values() if len(way.good) > way.bad]
    for way in helping:
        well, badly = by_tools[way.tools]
        way.weight = len(way.good) * (well + 1) / (well + badly + 2)
    most = max((way.weight for way in helping), default=0.0)
    usual = [way for way in helping if 2 * way.weight >= most]
    return sorted(usual, key=lambda way: (-way.weight, -way.score))


def _steps(experience: Experience, state: Path) -> list[Step]:
    """The steps of the last plan; none where the document is gone or cannot be read."""
    path = state / experience.document
    with suppress(FractalError, OSError):
        return last_plan(FileStore(path.parent).peek(path.stem))
    return []


def last_plan(document: Document) -> list[Step]:
    """The steps of the last attempt as they were planned; as they went where DO had to say how."""
    went = [document.steps[n] for n in sorted(document.steps) if n > document.meta.base]
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


def _example(experience: Experience, steps: Sequence[Step]) -> str:
    task = shortened(flat(experience.text), TASK_CHARS)
    if not steps:
        return f"“{task}” went well with: {', '.join(experience.moves) or 'no step'}"
    return shortened(f"“{task}” was solved by: {'; '.join(_calls(steps))}", EXAMPLE_CHARS)


def _calls(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        args = {key: _short(value) for key, value in (step.args or {}).items()}
        yield f"{step.tool} {to_json(args)}" if step.tool else f"subtask: {_short(step.what)}"


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else to_json(value)
    return value if len(text) <= ARGUMENT_CHARS else shortened(text, ARGUMENT_CHARS)


def flat(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def shortened(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
