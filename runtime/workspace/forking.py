"""Copies a run up to a step of its root as a new run, which can go on differently."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.asking.conversation import turn_of
from kernel.document.model import PHASES, Document, Section, Step
from kernel.errors import UsageError
from runtime.workspace.turns import decides_by_turns, for_fork

_LEFT_BEHIND = (
    "undone",
    "applied",
    "approved",
    "worktree",
    "plan_only",
    "group",
    "faults",
    "forked_from",
    "trace",
)
_OF_THE_ORIGINAL = ("tree_before", "tree_after", "spent", "deleted")
"""Evidence of a step about its files, and what it cost: both are the original's."""
_FIGURES = ("calls", "prompt", "cached", "instr", "out", "usd")


def step_to_fork(root: Document, step: int | None) -> int:
    """The step after which a fork goes on: this one, or the last that has ended. 0: before the first."""
    run, planned = root.meta.run, sorted(root.planned)
    if step is None:
        return max((n for n in planned if n in root.steps and root.steps[n].ended), default=0)
    if step and step not in root.steps:
        raise UsageError(f"run {run} has done no step {step}; `fractal tree {run}` shows them")
    if step and step not in planned:
        raise UsageError(f"step {step} of run {run} is of an earlier attempt, whose plan is not kept")
    if step and not root.steps[step].ended:
        raise UsageError(f"step {step} of run {run} has not ended")
    return step


def fork(documents: Sequence[Document], new: Document, step: int) -> list[Document]:
    """The documents of a fork after this step, parents before children.

    `new` is the first document of the new run. Calls and costs before the fork do not count in it.
    """
    root, run = documents[0], new.meta.run
    kept = {n for n, each in root.steps.items() if n <= step and each.ended}
    old = root.meta.run

    def renamed(name: str) -> str:
        return re.sub(rf"-{old}(?=-|\.|$)", f"-{run}", name)

    def with_steps(document: Document, steps: Mapping[int, Step]) -> Document:
        copies: dict[int, Step] = {}
        for n, each in steps.items():
            evidence = {key: value for key, value in each.evidence.items() if key not in _OF_THE_ORIGINAL}
            copies[n] = replace(each, link=renamed(each.link), evidence=evidence)
        return document.with_section(3, replace(document.section(3), steps=copies))

    steps = root.steps
    turn = turn_of(root.planned[step]) if step in root.planned else 0
    if decides_by_turns(root):
        root = for_fork(root, turn)
    planned = {n: each for n, each in root.planned.items() if n <= step or "turn" not in each.evidence}
    in_do = PHASES[root.meta.phase] >= PHASES["do"] and bool(planned or root.note(2, "work"))
    plan = replace(root.section(2), steps=planned) if in_do else Section(root.section(2).folds)
    said = root.section(3).notes if decides_by_turns(root) else ()
    sections = {1: root.section(1), 2: plan, 3: Section(notes=said)}
    extra = {key: value for key, value in root.meta.extra.items() if key not in _LEFT_BEHIND}
    meta = replace(
        new.meta,
        status="interrupted",
        phase="do" if in_do else "plan" if root.note(1, "resolved task") else "understand",
        attempt=root.meta.attempt,
        base=root.meta.base,
        taker=root.meta.taker,
        rungs=tuple(map(_free, root.meta.rungs)),
        derived={key: value for key, value in root.meta.derived.items() if key != "check"},
        extra={**extra, **new.meta.extra, "forked_from": {"run": old, "step": step}},
    )
    copies = [with_steps(Document(meta, sections), {n: each for n, each in steps.items() if n in kept})]
    for each in documents[1:]:
        if each.top(0) in kept:
            names: dict[str, Any] = {"id": renamed(each.meta.id), "parent": renamed(each.meta.parent)}
            own = each.having(**names, run=run, spent={}, rungs=tuple(map(_free, each.meta.rungs)))
            copies.append(with_steps(own, each.steps))
    return copies


def _free(rung: Mapping[str, Any]) -> dict[str, Any]:
    """Who answered, without what it cost."""
    return {key: value for key, value in rung.items() if key not in _FIGURES}


def copy_files(source: Path, target: Path, old: str, step: int) -> None:
    """Copy the long results and drafts of a run, without those of later steps."""

    def later(folder: str, files: list[str]) -> list[str]:
        numbers = {name: re.search(rf"-{old}-(\d+)", name) for name in files}
        return [name for name, hit in numbers.items() if name == "left" or (hit and int(hit[1]) > step)]

    for name in ("artifacts", "drafts"):
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=later, dirs_exist_ok=True)
