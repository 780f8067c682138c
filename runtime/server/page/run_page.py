"""What the page and the export show of a run: its loops with the phases of each, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.asking.conversation import (
    CHECKS,
    HEARD,
    PROPOSED,
    REPLACED,
    last_turn,
    turn_named,
    turn_of,
)
from kernel.asking.prompt import NOT_YET
from kernel.asking.responder import Usage
from kernel.document.model import NAMES, PHASES, Document, Fold, Note, Step
from kernel.errors import FractalError
from runtime.api.fractal import Fractal
from runtime.api.run_view import costs, plain, status_of, tree_of
from runtime.sandbox.changes import Change
from runtime.server.page.rendering import MARKDOWN_CHARS, Link, markdown
from runtime.telemetry.tracing import calls
from runtime.workspace.prompts import FOLDER, kept_prompt, prompt_path

_SECTION = {**PHASES, "fused": 2, "atomic": 3, "work": 3, "turn": 3}
"""The section in which an answer to an ask of this phase is shown; § 2 for what oversight was asked."""


_AFTER = (PROPOSED, CHECKS, REPLACED, NOT_YET, HEARD)
"""The notes of a turn that are shown after its calls."""
_FIGURES = Usage.__dataclass_fields__
"""What the page knows of a call's cost; the log of a newer version may have more."""


@dataclass(frozen=True)
class Called:
    """One call of a model: its place, its reply or why it failed, and whether its prompt is kept."""

    key: str
    phase: str
    attempt: int
    step: str
    model: str
    text: str
    why: str
    usage: Usage | None  # None: the call has not ended
    kept: bool


@dataclass(frozen=True)
class Turn:
    """One turn of DO: what it said, its calls, and what became of its answer."""

    number: int
    notes: Sequence[Note]
    steps: Sequence[Step]
    after: Sequence[Note]


@dataclass(frozen=True)
class Phase:
    """One section of a loop, who filled it in, and at what cost. `notes` and `steps` are of no turn."""

    number: int
    name: str
    notes: Sequence[Note] = ()
    folds: Sequence[Fold] = ()
    steps: Sequence[Step] = ()
    turns: Sequence[Turn] = ()
    costs: Sequence[Mapping[str, Any]] = ()
    calls: Sequence[Called] = ()

    @property
    def spent(self) -> dict[str, Any]:
        """Calls, tokens and money of all its answers."""
        names = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "usd")
        totals: dict[str, Any] = {name: sum(each[name] or 0 for each in self.costs) for name in names}
        return totals | {"unpriced": sum(each["usd"] is None for each in self.costs)}

    @property
    def responders(self) -> list[str]:
        """Who answered."""
        return list(dict.fromkeys(str(each["rung"]) for each in self.costs))


@dataclass(frozen=True)
class RunPage:
    """All that is shown of a run."""

    run: str
    status: str
    root: Mapping[str, Any]  # the tree, as `fractal tree --json` has it
    documents: Mapping[str, Document | str]
    phases: Mapping[str, Sequence[Phase]]  # by the id of the loop
    changes: Sequence[Change] = ()
    strays: Sequence[str] = ()
    problem: str = ""  # why the changes are not shown
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    folder: Path = Path()

    def prompt(self, key: str) -> str:
        """What a call sent; "" if the run has no such call, or its prompt is not kept."""
        made = (call for parts in self.phases.values() for part in parts for call in part.calls)
        return kept_prompt(self.folder, key) if any(each.kept and each.key == key for each in made) else ""


def run_page(fractal: Fractal, name: str) -> RunPage:
    """What is shown of a run. Raises `UsageError` if there is none of that name."""
    run = fractal.find(name)
    tree = tree_of(fractal, run)
    readable = {key: each for key, each in tree.documents.items() if isinstance(each, Document)}
    folder, top = fractal.workspace.runs / run, str(tree.root["id"])
    made: dict[str, list[Called]] = {}
    for loop, call in _calls(folder):
        made.setdefault(loop if loop in readable else top, []).append(call)  # the root has those of oversight
    phases = {key: _phases(each, made.get(key, ())) for key, each in readable.items()}
    changes, problem = changes_of(fractal, run)
    root = readable.get(top)
    status = status_of(fractal, run, root.meta.word) if root else "broken"
    meta: dict[str, Any] = {}
    if root:
        meta = {name: getattr(root.meta, name) for name in ("created", "folder", "spent")}
        meta["agent"] = root.meta.extra.get("agent", "")
    return RunPage(
        run, status, tree.root, tree.documents, phases, changes, tree.strays, problem, meta, folder
    )


def changes_of(
    fractal: Fractal, run: str, step: int | None = None, loop: str = ""
) -> tuple[Sequence[Change], str]:
    """What a run, or a step of a loop, changed; or why that cannot be shown."""
    try:
        return fractal.diffs(run, step, loop=loop), ""
    except FractalError as error:  # a document is broken, or the folder is gone
        return (), str(error)


def _calls(folder: Path) -> Iterator[tuple[str, Called]]:
    """The calls of models, each with its loop, from the log."""
    there = set(disk.matching(folder / FOLDER, "*.md"))
    with suppress(OSError):
        for call in calls(folder / "calls.jsonl"):
            step = [*call.key.split("/"), "", "", "", ""][3]
            figures = {name: each for name, each in (call.usage or {}).items() if name in _FIGURES}
            yield (
                call.loop,
                Called(
                    call.key,
                    call.phase,
                    call.attempt,
                    step,
                    call.model or call.rung,
                    call.text,
                    call.why,
                    None if call.end is None else Usage(**figures),
                    prompt_path(folder, call.key).name in there,
                ),
            )


def _phases(document: Document, made: Sequence[Called]) -> list[Phase]:
    """The sections of a document that have something in them."""
    paid = list(costs([document]))
    found: list[Phase] = []
    for number, name in NAMES.items():
        section = document.section(number)
        notes = [note for note in section.notes if number != 3 or not turn_named(note)]
        phase = Phase(
            number,
            name.capitalize(),
            notes,
            section.folds,
            [step for n, step in section.steps.items() if not _shown_in_do(document, number, n)],
            _turns(document) if number == 3 else (),
            tuple(each for each in paid if _SECTION.get(each["phase"], 2) == number),
            tuple(each for each in made if _SECTION.get(each.phase, 2) == number),
        )
        if section.notes or section.folds or section.steps or phase.costs or phase.calls:
            found.append(phase)
    return found


def _shown_in_do(document: Document, section: int, n: int) -> bool:
    """Whether a step is shown in its turn: a call of a turn that has begun is no step of the plan."""
    ours = n in document.planned and turn_of(document.planned[n]) > 0
    return ours and (section == 3 or n in document.steps)


def _turns(document: Document) -> list[Turn]:
    """The turns of this attempt."""
    found: list[Turn] = []
    for number in range(1, last_turn(document) + 1):
        notes = [note for note in document.section(3).notes if turn_named(note) == number]
        ours = [n for n, step in document.planned.items() if turn_of(step) == number]
        steps = [document.steps[n] for n in ours if n in document.steps]
        said = [note for note in notes if note.key not in _AFTER]
        found.append(Turn(number, said, steps, [note for note in notes if note.key in _AFTER]))
    return found


def as_text(fractal: Fractal, document: str) -> str:
    """The file of a document."""
    return fractal.path(document).read_bytes().decode("utf-8", "replace")


def as_markdown(text: str, link: Link) -> Any:
    """The body of a document's file as HTML; None if it is too long or no document."""
    parts = text.split("---\n", 2)
    if len(parts) < 3 or len(text) > MARKDOWN_CHARS:
        return None
    return markdown(plain(parts[2]), link)
