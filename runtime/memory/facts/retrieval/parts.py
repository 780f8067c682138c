"""The parts of retrieval, each with a switch; their weights; and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal

from kernel.errors import ConfigurationError, UsageError

Mode = Literal["standard", "aggregated", "multi-anchor"]
MODES: tuple[Mode, ...] = ("standard", "aggregated", "multi-anchor")
WEIGHTS = Path(__file__).with_name("weights.json")
"""Made by `python -m bench locomo --fit`."""


@dataclass(frozen=True)
class Parts:
    """The parts of a score, and what is done with it; each can be switched off."""

    words: bool = True  # BM25
    neighbours: bool = True  # words and vectors of a record together with those of the turns around it
    meaning: bool = True  # cosine of the question's vector and its own
    late: bool = True  # each word of the question with the most similar word of the record
    speaker: bool = True  # the question names who said it
    names: bool = True  # the question names what it mentions
    time: bool = True  # the question mentions days, and it was said then or mentions them
    when: bool = True  # the question asks for a time, and it has one
    form: bool = True  # it asks nothing, is in the first person, and is not short
    nodes: bool = True  # look closely at the best nodes: a memory with its evidence, or a single observation
    spread: bool = True  # along edges
    strength: bool = True  # retrievability and salience

    def without(self, *names: str) -> Parts:
        """The same with these off."""
        known = [each.name for each in fields(self)]
        if unknown := [name for name in names if name not in known]:
            raise UsageError(f"{', '.join(unknown)}: not a part of retrieval; there are {', '.join(known)}")
        return replace(self, **dict.fromkeys(names, False))


ALL = Parts()

FEATURES: Mapping[str, str] = {
    "word_before": "words",
    "word_around": "words",
    "meaning": "meaning",
    "late": "late",
    "late_before": "late",
    "speaker": "speaker",
    "names": "names",
    "time": "time",
    "spoken": "time",
    "when": "when",
    "asks": "form",
    "first_person": "form",
    "length": "form",
}
"""What is measured of a record for a question, and the part that it belongs to."""


@dataclass(frozen=True)
class Found:
    """A record that answers a question. `score` ranks it: its share among all candidates, 0 to 1.

    `parts` has what each part adds to the logarithm of that share, then the factors
    (`retrievability`, `salience`), and `spread` if it came along an edge. `likeness` (0 to 1) does not
    depend on other records: how much of the question the record contains, by words or meaning.
    """

    id: str
    kind: str
    text: str
    score: float
    parts: Mapping[str, float]
    why: str
    likeness: float = 0.0
    raw: Mapping[str, float] = field(default_factory=dict[str, float])  # the measures behind `likeness`

    def explained(self) -> str:
        """The score by part, the largest first, in one line."""
        ordered = sorted(self.parts.items(), key=lambda each: (-abs(each[1]), each[0]))
        return f"{self.score:.3f} = " + " ".join(f"{name} {value:+.2f}" for name, value in ordered if value)


@cache
def weights_of(embedder: str, path: Path = WEIGHTS) -> Mapping[str, float]:
    """The weights for an embedder of this name ("" for none); those of minilm if it is unknown."""
    try:
        weights = json.loads(path.read_text("utf-8"))["weights"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{path}: cannot read the weights of retrieval ({error}); run python -m bench locomo --fit"
        ) from None
    if embedder == "":
        return weights["none"]
    known = next((name for name in weights if embedder.startswith(name)), "minilm")
    return weights[known]
