"""The stages of a dream that keep learned patterns few and general: compress-patterns and promote."""

from __future__ import annotations

from runtime.memory.dream.stage import Dream, Told
from runtime.memory.learning.library import Library
from runtime.memory.learning.merging import Merging
from runtime.memory.learning.promotion import Promotion
from runtime.places import state_of


def compress_patterns(dream: Dream) -> Told:
    """Patterns that say the same become one, many of a kind a general one; the least sure go."""
    did, counts = Merging(_library(dream), dream.brain.embedder).compress(dream.now)
    return Told(did, counts)


def promote(dream: Dream) -> Told:
    """What two agents, or three spaces, have used with success holds for all of them."""
    settings = dream.brain.settings
    did = Promotion(dream.shelf, _library(dream), dream.brain.embedder, state_of(settings.folder)).promote()
    return Told(did, {"promoted": len(did)})


def _library(dream: Dream) -> Library:
    settings = dream.brain.settings
    return Library(settings.folder / "patterns", systems=settings.systems, fsync=settings.fsync)
