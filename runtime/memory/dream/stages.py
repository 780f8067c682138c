"""The stages of a dream, in their order. A stage's code is imported when it runs.

Phase a finds a place for what was observed, phase p works on how things are done, phase b on what is known as
a whole; decay and the report see what the others made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from kernel.errors import UsageError
from runtime.memory.dream.stage import Dream, Group, Stage, Told

GROUPS: tuple[Group, ...] = ("a", "p", "b")
_TABLE: tuple[tuple[Group, str, str, str], ...] = (
    ("a", "probe", "probing", "search for some of what can be found now, to compare later"),
    ("a", "cluster", "observations", "make observations evidence of the memory they are nearest to"),
    ("a", "refine", "observations", "reword memories from their evidence, and check their edges again"),
    ("a", "create", "observations", "make memories of what surprises and belongs to none"),
    ("a", "verify", "probing", "take the dream back if less is found than before"),
    ("p", "merge-neurons", "solved_tasks", "merge solved tasks that are one procedure"),
    ("p", "prune-synapses", "solved_tasks", "remove weak links inside solved tasks"),
    ("p", "delete-weak-trees", "solved_tasks", "forget what is in quarantine and was never right"),
    ("p", "rehabilitate", "solved_tasks", "release what has been in quarantine for long"),
    ("p", "prune-events", "solved_tasks", "keep the newest 100 decisions on each solved task"),
    ("p", "prune-branches", "solved_tasks", "cut parts that misled back to a stump that keeps the blame"),
    ("p", "mitosis", "solved_tasks", "split a kind of task that is large and has little in common"),
    ("p", "cluster-substrates", "solved_tasks", "assign a kind to solved tasks without one"),
    ("p", "birth-methods", "solved_tasks", "make a method of five solved tasks with one operation"),
    ("b", "connect", "memories", "link recent memories that belong together"),
    ("b", "score", "memories", "review the memories that are due"),
    ("b", "abstract", "memories", "make a memory of what several occasions have in common"),
    (
        "b",
        "compress-patterns",
        "solved_tasks",
        "merge learned patterns that say the same, drop the least certain",
    ),
    ("b", "promote", "solved_tasks", "share what several agents or spaces have learned"),
    ("b", "decay", "memories", "weaken edges, credit and blame with age"),
    (
        "b",
        "report",
        "report",
        "summarise the dream, how memory hangs together, and whether it still surprises",
    ),
)
"""Group, name, module, and what it does. The function is the name with underscores."""


def _run(module: str, name: str) -> Callable[[Dream], Told]:
    def run(dream: Dream) -> Told:
        return getattr(import_module(f"{__package__}.{module}"), name)(dream)

    return run


ALL = tuple(
    Stage(name, group, does, _run(module, name.replace("-", "_"))) for group, name, module, does in _TABLE
)


def chosen(
    phases: Sequence[str] = (), without: Sequence[str] = (), stages: Sequence[Stage] = ALL
) -> tuple[Stage, ...]:
    """The stages of these phases (none named: all) without those switched off. Raises `UsageError`."""
    names = [stage.name for stage in stages]
    if unknown := [each for each in without if each not in names]:
        raise UsageError(f"there is no stage {', '.join(unknown)}; there are {', '.join(names)}")
    if wrong := [each for each in phases if each not in GROUPS]:
        raise UsageError(f"there is no phase {', '.join(wrong)}; there are {', '.join(GROUPS)}")
    return tuple(each for each in stages if (not phases or each.group in phases) and each.name not in without)
