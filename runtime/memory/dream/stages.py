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
    _stage("probe", "a", "some of what can be found now is asked for, to compare", "probing:probe"),
    _stage(
        "cluster",
        "a",
        "what was observed becomes evidence of the memory that it is nearest to",
        "cluster:cluster",
    ),
    _stage(
        "refine",
        "a",
        "a memory is worded anew from its evidence, and its edges are looked at again",
        "refine:refine",
    ),
    _stage("create", "a", "what surprises and belongs to no memory becomes one", "create:create"),
    _stage("verify", "a", "where less is found than before, the dream is taken back", "probing:verify"),
    _stage(
        "merge-neurons", "p", "solved tasks that are one procedure become one", "procedural:merge_neurons"
    ),
    _stage(
        "prune-synapses", "p", "links inside a solved task that hardly pull go", "procedural:prune_synapses"
    ),
    _stage(
        "delete-weak-trees",
        "p",
        "what is in quarantine and was never right is forgotten",
        "procedural:delete_weak_trees",
    ),
    _stage(
        "rehabilitate",
        "p",
        "what has been in quarantine for long may be used again",
        "procedural:rehabilitate",
    ),
    _stage(
        "prune-events",
        "p",
        "of the decisions on a solved task the newest 100 are kept",
        "procedural:prune_events",
    ),
    _stage(
        "prune-branches",
        "p",
        "a part of a solved task that misled is cut back to a stump that says so",
        "procedural:prune_branches",
    ),
    _stage(
        "mitosis",
        "p",
        "a kind of task that is large and has little in common is split in two",
        "procedural:mitosis",
    ),
    _stage("cluster-substrates", "p", "solved tasks without a kind get one", "procedural:cluster_substrates"),
    _stage(
        "birth-methods", "p", "five solved tasks with one operation make a method", "procedural:birth_methods"
    ),
    _stage("connect", "b", "memories that came up lately and belong together get an edge", "connect:connect"),
    _stage("score", "b", "memories that are due are reviewed", "score:score"),
    _stage("abstract", "b", "what memories of several kinds have in common becomes one", "abstract:abstract"),
    _stage(
        "compress-patterns",
        "b",
        "learned patterns that say the same become one, the least sure go",
        "patterns:compress_patterns",
    ),
    _stage("promote", "b", "what several agents or spaces have learned holds for all", "patterns:promote"),
    _stage("decay", "b", "edges, credit and blame count less, the longer ago they came", "fading:decay"),
    _stage(
        "report",
        "b",
        "what was done, how what is known hangs together, whether it still surprises",
        "report:report",
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
