"""Procedural memory: how tasks were solved, recalled for the same and similar tasks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Parts:
    """Which mechanisms are at work; each can be switched off alone, to measure what it brings."""

    segmentation: bool = True
    fingerprints: bool = True
    types: bool = True
    methods: bool = True
    hebbian: bool = True
    merging: bool = True
    surprise: bool = True
    quarantine: bool = True
    blame: bool = True

    def without(self, name: str) -> Parts:
        """These parts without one; raises `TypeError` for an unknown name."""
        return replace(self, **{name: False})


NAMES = tuple(each.name for each in fields(Parts))
ALL = Parts()


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be learned, matched or used."""

    why: str
