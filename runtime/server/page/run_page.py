"""What the page and the export show of a run: its loops with the phases of each, and what it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernel.document.model import NAMES, PHASES, Document, Fold, Note, Step
from kernel.errors import FractalError
from kernel.store.call_log import ReplyLog
from runtime.api.fractal import Fractal
from runtime.api.run_view import costs, plain, status_of, tree_of
from runtime.sandbox.changes import Change
from runtime.server.page.rendering import MARKDOWN_CHARS, Link, markdown

_SECTION = {**PHASES, "fused": 2, "atomic": 3, "work": 3}
"""The section in which an answer to an ask of this phase is shown; § 2 for what oversight was asked."""


@dataclass(frozen=True)
class Replied:
    """What a model replied to one ask."""

    phase: str
    attempt: str
    step: str
    model: str
    text: str
    prompt_tokens: int
    completion_tokens: int
    usd: float | None


@dataclass(frozen=True)
class Phase:
    """One section of a loop, who filled it in, and at what cost."""

    number: int
    name: str
    notes: Sequence[Note] = ()
    folds: Sequence[Fold] = ()
    steps: Sequence[Step] = ()
    costs: Sequence[Mapping[str, Any]] = ()
    replies: Sequence[Replied] = ()

    @property
    def spent(self) -> dict[str, Any]:
        """Calls, tokens and money of all its answers."""
        names = ("calls", "prompt_tokens", "completion_tokens", "usd")
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


def run_page(fractal: Fractal, name: str) -> RunPage:
    """What is shown of a run. Raises `UsageError` if there is none of that name."""
    run = fractal.find(name)
    tree = tree_of(fractal, run)
    replies = _replies(fractal, run)
    readable = {key: each for key, each in tree.documents.items() if isinstance(each, Document)}
    phases = {key: _phases(each, replies.get(key, ())) for key, each in readable.items()}
    changes, problem = _changes(fractal, run)
    root = readable.get(str(tree.root["id"]))
    status = status_of(fractal, run, root.meta.word) if root else "broken"
    meta: dict[str, Any] = {}
    if root:
        meta = {name: getattr(root.meta, name) for name in ("created", "folder", "spent")}
        meta["agent"] = root.meta.extra.get("agent", "")
    return RunPage(run, status, tree.root, tree.documents, phases, changes, tree.strays, problem, meta)


def _changes(fractal: Fractal, run: str) -> tuple[Sequence[Change], str]:
    try:
        return fractal.diffs(run), ""
    except FractalError as error:  # a document is broken, or the folder is gone
        return (), str(error)


def _replies(fractal: Fractal, run: str) -> dict[str, list[Replied]]:
    """The replies of models by loop, from the log of calls."""
    found: dict[str, list[Replied]] = {}
    with suppress(FractalError):
        for key, reply in ReplyLog(fractal.workspace.runs / run / "calls.jsonl").replies.items():
            loop, attempt, phase, step, *_ = [*key.split("/"), "", "", ""]
            usage = reply.usage
            tokens = usage.prompt_tokens, usage.completion_tokens, usage.usd
            found.setdefault(loop, []).append(Replied(phase, attempt, step, reply.model, reply.text, *tokens))
    return found


def _phases(document: Document, replies: Sequence[Replied]) -> list[Phase]:
    """The sections of a document that have something in them."""
    paid = list(costs([document]))
    found: list[Phase] = []
    for number, name in NAMES.items():
        section = document.section(number)
        phase = Phase(
            number,
            name.capitalize(),
            section.notes,
            section.folds,
            tuple(section.steps.values()),
            tuple(each for each in paid if _SECTION.get(each["phase"], 2) == number),
            tuple(each for each in replies if _SECTION.get(each.phase, 2) == number),
        )
        if section.notes or section.folds or section.steps or phase.costs or phase.replies:
            found.append(phase)
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
