"""Trials: a change against what is there now, on the same tasks, in pairs, with a confidence interval.

A change is adopted only when it is shown to be better, and reverted when it is shown to be worse. Each trial
is kept as a markdown file in `state/memory/trials/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb, sqrt
from pathlib import Path
from typing import Any, Literal

from kernel import disk
from kernel.errors import DocumentError
from runtime.evolution.files import claim, numbered, read_head, with_head

Z = 1.959964
"""Of the normal distribution, for an interval of 95 %."""
LEVEL = 0.05
"""How likely the better side's lead may at most be by chance."""
Kind = Literal["pattern", "phase", "tool", "change"]
Finding = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class Pair:
    """One task done both ways; None where it could not be done."""

    task: str
    present: bool | None
    tried: bool | None
    calls: tuple[int, int] = (0, 0)
    note: str = ""


def interval(size: int, won: int, lost: int) -> tuple[float, float]:
    """The difference of two rates over `size` pairs, 95 %: half a pair more a cell (Agresti and Min)."""
    middle = (won - lost) / (size + 2)
    half = Z * sqrt(max(won + lost + 1 - (won - lost) ** 2 / (size + 2), 0.0)) / (size + 2)
    return max(middle - half, -1.0), min(middle + half, 1.0)


def chance(won: int, lost: int) -> float:
    """The probability of a lead like this or larger if both are alike (McNemar, exact, one side)."""
    unlike = won + lost
    return sum(comb(unlike, k) for k in range(max(won, lost), unlike + 1)) / 2**unlike


def finding(size: int, won: int, lost: int) -> Finding:
    """Better or worse where the interval and the exact test both say so."""
    low, high = interval(size, won, lost)
    if chance(won, lost) > LEVEL or low <= 0 <= high:
        return "undecided"
    return "better" if low > 0 else "worse"


@dataclass(frozen=True)
class Compared:
    """The result of comparing a change in pairs with the present state."""

    pairs: Sequence[Pair]

    @property
    def counted(self) -> list[Pair]:
        """The pairs that were done both ways."""
        return [each for each in self.pairs if each.present is not None and each.tried is not None]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Pairs, and those done with the present and with the tried one."""
        pairs = self.counted
        return len(pairs), sum(bool(each.present) for each in pairs), sum(bool(each.tried) for each in pairs)

    @property
    def won(self) -> int:
        """Tasks that only the change did."""
        return sum(bool(each.tried and not each.present) for each in self.counted)

    @property
    def lost(self) -> int:
        """Tasks that only the present one did."""
        return sum(bool(each.present and not each.tried) for each in self.counted)

    @property
    def difference(self) -> float:
        """The change's rate of success less the present one's."""
        return (self.won - self.lost) / len(self.counted) if self.counted else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the difference."""
        return interval(len(self.counted), self.won, self.lost)

    @property
    def finding(self) -> Finding:
        """Whether the change is shown to be better or worse."""
        return finding(len(self.counted), self.won, self.lost)

    @property
    def more(self) -> int:
        """Pairs that would decide it if they went as these did; as many again where none differed."""
        size, won, lost = len(self.counted), self.won, self.lost
        if won == lost:
            return max(size, 5)
        decides = (n for n in range(2, 200) if finding(size * n, won * n, lost * n) != "undecided")
        return size * (next(decides, 201) - 1)

    @property
    def summary(self) -> str:
        """The same as a sentence."""
        size, present, tried = self.counts
        low, high = self.interval
        if not size:
            return "no task was done both ways, which tells nothing"
        rates = f"{tried} of {size} done with it, {present} without it"
        more = f"; {self.more} more tasks may tell" if self.finding == "undecided" else ""
        return f"{self.finding}: {rates} ({self.difference:+.0%}, 95 %: {low:+.0%} to {high:+.0%}){more}"

    def as_dict(self) -> dict[str, Any]:
        """As `--json` and the record have it."""
        size, *successes = self.counts
        sides = {
            name: {
                "done": successes[at],
                "rate": round(successes[at] / size, 4) if size else None,
                "calls": sum(each.calls[at] for each in self.counted),
            }
            for at, name in enumerate(("present", "tried"))
        }
        return {
            "finding": self.finding,
            "pairs": size,
            **sides,
            "won": self.won,
            "lost": self.lost,
            "difference": round(self.difference, 4),
            "ci": [round(each, 4) for each in self.interval],
            "chance": round(chance(self.won, self.lost), 4),
        }


@dataclass(frozen=True)
class Trial:
    """One trial as it is kept; `did` says what followed: adopted, reverted, kept."""

    id: str
    kind: Kind
    unit: str
    compared: Compared
    at: str = ""
    did: str = ""
    against: str = ""  # what it was tried against
    proposal: str = ""

    def head(self) -> dict[str, str]:
        """Its values, without the pairs."""
        names = ("kind", "unit", "at", "did", "against", "proposal")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        tasks = [asdict(each) for each in self.compared.pairs]
        return {"id": self.id, **self.head(), **self.compared.as_dict(), "tasks": tasks}


class Trials:
    """The trials of one workspace, in the order in which they were made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # state/memory/trials

    def keep(self, kind: Kind, unit: str, compared: Compared, at: str = "", **more: str) -> Trial:
        """Write a trial down."""

        def create(id: str) -> None:
            (self.folder / f"{id}.md").touch(mode=0o600, exist_ok=False)

        with disk.writing_state(self.folder):
            trial = Trial(claim(self.folder, "t", create), kind, unit, compared, at, **more)
            disk.put(self.folder / f"{trial.id}.md", _written(trial), mode=0o600)
        return trial

    def all(self) -> list[Trial]:
        """Every trial, the first one first. Raises `DocumentError` for one that cannot be read."""
        # an empty file was claimed by a process that died
        ids = (id for id in numbered(self.folder, "t") if (self.folder / f"{id}.md").stat().st_size)
        return [self.get(id) for id in ids]

    def get(self, name: str) -> Trial:
        """One trial. Raises `DocumentError`."""
        path = self.folder / f"{name}.md"
        try:
            values, _ = read_head(path.read_text("utf-8"), {"pairs", *Trial.__dataclass_fields__})
            pairs = [
                Pair(t, p, n, (int(c[0]), int(c[1])), note) for t, p, n, c, note in values.pop("pairs", [])
            ]
            return Trial(**{**values, "id": name, "compared": Compared(pairs)})
        except (OSError, ValueError, IndexError, TypeError) as error:
            raise DocumentError(f"invalid trial: {error}; fix or remove it", str(path)) from None


def _written(trial: Trial) -> bytes:
    marks: Mapping[bool | None, str] = {True: "done", False: "not done", None: "–"}
    pairs = [[p.task, p.present, p.tried, list(p.calls), p.note] for p in trial.compared.pairs]
    rows = ["| task | present | tried | calls |", "| --- | --- | --- | ---: |"]
    for each in trial.compared.pairs:
        task = " ".join(each.task.split()).replace("|", "\\|")[:120]
        calls = f"{each.calls[0]} · {each.calls[1]}"
        rows.append(f"| {task} | {marks[each.present]} | {marks[each.tried]} | {calls} |")
    body = f"# Trial of {trial.unit}\n\n{trial.compared.summary}\n\n" + "\n".join(rows)
    return with_head({**trial.head(), "pairs": pairs}, body)
