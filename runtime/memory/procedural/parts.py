"""The parts of procedural memory that can be switched off, each by itself: what one brings is measured."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Parts:
    """Which parts are at work."""

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
        """All of these but one; raises `TypeError` for a name that is no part."""
        return replace(self, **{name: False})


NAMES = tuple(each.name for each in fields(Parts))
"""Of all parts, in the order in which they are shown."""
ALL = Parts()
