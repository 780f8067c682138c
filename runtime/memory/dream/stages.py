"""All stages of a dream, in their order. A stage's code is imported when it is run.

Stages of group `a` come first: what was observed finds its place. Those of `p` work on how things are done,
those of `b` on what is known as a whole; decay and the report see what all others have made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from kernel.errors import UsageError
from runtime.memory.dream.stage import Dream, Stage, Told

GROUPS = ("a", "p", "b")


def _at(place: str) -> Callable[[Dream], Told]:
    module, _, name = place.partition(":")

    def run(dream: Dream) -> Told:
        from importlib import import_module

        return getattr(import_module(f"runtime.memory.dream.{module}"), name)(dream)

    return run


def _stage(name: str, group: Literal["a", "p", "b"], does: str, place: str) -> Stage:
    return Stage(name, group, does, _at(place))


ALL: tuple[Stage, ...] = (
    _stage(
        "merge-neurons",
        "p",
        "solved tasks that are one procedure become one",
        "procedural:merge_neurons",
    ),
)
"""In the order in which they are done."""


def chosen(
    phases: Sequence[str] = (), without: Sequence[str] = (), stages: Sequence[Stage] = ALL
) -> tuple[Stage, ...]:
    """The stages of these groups (none named: all) but for those that are switched off."""
    names = [stage.name for stage in stages]
    if unknown := [each for each in without if each not in names]:
        raise UsageError(f"there is no stage {', '.join(unknown)}; there are {', '.join(names)}")
    if wrong := [each for each in phases if each not in GROUPS]:
        raise UsageError(f"there is no phase {', '.join(wrong)}; there are {', '.join(GROUPS)}")
    return tuple(each for each in stages if (not phases or each.group in phases) and each.name not in without)
