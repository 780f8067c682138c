"""The parts of retrieval, each with a switch; what they weigh; and what is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal

from kernel.errors import ConfigurationError, UsageError

Mode = Literal["standard", "aggregated", "multi-anchor"]
MODES: tuple[Mode, ...] = ("standard", "aggregated", "multi-anchor")
WEIGHTS = Path(__file__).with_name("weights.json")
"""Made by `fractal bench locomo --fit`."""


@dataclass(frozen=True)
class Parts:
    """What a score is made of, and what is done with it; each can be switched off."""

    words: bool = True  # BM25
    neighbours: bool = True  # also of a record together with the turns around it
    thread: bool = True  # BM25 of its whole thread
    meaning: bool = True  # cosine of the question's vector and its own
    late: bool = True  # each word of the question with the word of the record that is most like it
    speaker: bool = True  # the question names who said it
    names: bool = True  # the question names what it is known to speak of
    time: bool = True  # the question speaks of days, and it was said then or speaks of them
    when: bool = True  # the question asks for a time, and it tells one
    form: bool = True  # it asks nothing, speaks of who says it, and is not short
    event: bool = True  # "before the trip": the day of what is found for "the trip"
    nodes: bool = True  # look closely at what the best nodes lead to, a memory with its evidence being one
    spread: bool = True  # along edges
    strength: bool = True  # retrievability and salience of what is remembered

    def without(self, *names: str) -> Parts:
        """The same with these off."""
        known = [each.name for each in fields(self)]
        if unknown := [name for name in names if name not in known]:
            raise UsageError(f"{', '.join(unknown)}: no part of retrieval; there are {', '.join(known)}")
        return replace(self, **dict.fromkeys(names, False))


ALL = Parts()

FEATURES: Mapping[str, str] = {
    "word": "words",
    "word_before": "neighbours",
    "word_around": "neighbours",
    "word_thread": "thread",
    "meaning": "meaning",
    "late": "late",
    "late_square": "late",
    "speaker": "speaker",
    "names": "names",
    "time": "time",
    "spoken": "time",
    "when": "when",
    "told": "when",
    "asks": "form",
    "first_person": "form",
    "length": "form",
}
"""What is measured of a record for a question, and the part that it belongs to."""


@dataclass(frozen=True)
class Found:
    """A record that answers a question. `score` ranks: its share among all that may answer, 0 to 1.

    `parts` has what each part adds to the logarithm of that share, then what it was multiplied by
    (`retrievability`, `salience`), and `spread` where it came along an edge. `likeness` is between 0 and 1
    whatever else there is: how much of what the question says stands in the record, by words or meaning.
    """

    id: str
    kind: str
    text: str
    score: float
    parts: Mapping[str, float]
    why: str
    likeness: float = 0.0

    def explained(self) -> str:
        """The score by part, the largest first, as one line for a person."""
        told = sorted(self.parts.items(), key=lambda each: (-abs(each[1]), each[0]))
        return f"{self.score:.3f} = " + " ".join(f"{name} {value:+.2f}" for name, value in told if value)


@cache
def weights_of(embedder: str, path: Path = WEIGHTS) -> Mapping[str, float]:
    """The weights for an embedder of this name ("" for none); unknown ones weigh as minilm does."""
    try:
        told = json.loads(path.read_text("utf-8"))["weights"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{path}: no weights of retrieval ({error}); make them: fractal bench locomo --fit"
        ) from None
    if embedder == "":
        return told["none"]
    known = next((name for name in told if embedder.startswith(name)), "minilm")
    return told[known]
