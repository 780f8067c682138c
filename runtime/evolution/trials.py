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

    @property
    def whole(self) -> bool:
        """Whether both ways were done."""
        return self.present is not None and self.tried is not None


@dataclass(frozen=True)
class Compared:
    """What pairs tell of the change that was tried against what is there now."""

    pairs: Sequence[Pair]

    @property
    def counted(self) -> list[Pair]:
        """The pairs that were done whole: half a pair tells nothing."""
        return [each for each in self.pairs if each.whole]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Pairs, and those done with the present and with the tried one."""
        done = self.counted
        return len(done), sum(bool(each.present) for each in done), sum(bool(each.tried) for each in done)

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
        """Of the difference, 95 %, for pairs: half an observation more in each cell (Agresti and Min)."""
        size = len(self.counted) + 2
        won, lost = self.won + 0.5, self.lost + 0.5
        middle = (won - lost) / size
        half = Z * sqrt(max(won + lost - (won - lost) ** 2 / size, 0.0)) / size
        return max(middle - half, -1.0), min(middle + half, 1.0)

    @property
    def chance(self) -> float:
        """How likely a lead like this or larger is where both are alike (McNemar, exact, one side)."""
        unlike = self.won + self.lost
        return sum(comb(unlike, k) for k in range(max(self.won, self.lost), unlike + 1)) / 2**unlike

    @property
    def finding(self) -> Finding:
        """Better or worse where the interval and the exact test both say so."""
        low, high = self.interval
        if low > 0 and self.chance <= LEVEL:
            return "better"
        return "worse" if high < 0 and self.chance <= LEVEL else "undecided"

    @property
    def told(self) -> str:
        """The same as a sentence."""
        size, present, tried = self.counts
        low, high = self.interval
        if not size:
            return "no task was done both ways, which tells nothing"
        rates = f"{tried} of {size} done with it, {present} without it"
        more = f"; {self.more} more tasks may tell" if self.finding == "undecided" else ""
        return f"{self.finding}: {rates} ({self.difference:+.0%}, 95 %: {low:+.0%} to {high:+.0%}){more}"

    @property
    def more(self) -> int:
        """Pairs that would decide it if they went as these did; as many again where none differed."""
        pairs = list(self.counted)
        if not pairs or self.won == self.lost:
            return max(len(pairs), 5)
        for times in range(2, 200):
            if Compared(pairs * times).finding != "undecided":
                return len(pairs) * (times - 1)
        return len(pairs) * 200

    def as_dict(self) -> dict[str, Any]:
        """As `--json` and the record have it."""
        size, present, tried = self.counts
        low, high = self.interval
        sides: dict[str, Any] = {}
        for at, (name, done) in enumerate({"present": present, "tried": tried}.items()):
            rate = round(done / size, 4) if size else None
            sides[name] = {"done": done, "rate": rate, "calls": sum(each.calls[at] for each in self.counted)}
        return {
            "finding": self.finding,
            "pairs": size,
            **sides,
            "won": self.won,
            "lost": self.lost,
            "difference": round(self.difference, 4),
            "ci": [round(low, 4), round(high, 4)],
            "chance": round(self.chance, 4),
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

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        names = ("id", "kind", "unit", "at", "did", "against", "proposal")
        told = {name: getattr(self, name) for name in names if getattr(self, name)}
        return {**told, **self.compared.as_dict(), "tasks": [asdict(each) for each in self.compared.pairs]}


class Trials:
    """The trials of one workspace, in the order in which they were made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # state/memory/trials

    def keep(self, kind: Kind, unit: str, compared: Compared, at: str = "", **more: str) -> Trial:
        """Write a trial down."""

        def create(id: str) -> None:
            (self.folder / f"{id}.md").touch(mode=0o600, exist_ok=False)

        with disk.of_the_state(self.folder):
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
            told, _ = read_head(path.read_text("utf-8"), {"pairs", *Trial.__dataclass_fields__})
            pairs = told.pop("pairs", [])
            pairs = [Pair(t, p, n, (int(c[0]), int(c[1])), note) for t, p, n, c, note in pairs]
            return Trial(**{**told, "id": name, "compared": Compared(pairs)})
        except (OSError, ValueError, IndexError, TypeError) as error:
            raise DocumentError(f"invalid trial: {error}; fix or remove it", str(path)) from None


_MARKS: Mapping[bool | None, str] = {True: "done", False: "not done", None: "–"}


def _written(trial: Trial) -> bytes:
    pairs = [[p.task, p.present, p.tried, list(p.calls), p.note] for p in trial.compared.pairs]
    rows = ["| task | present | tried | calls |", "| --- | --- | --- | ---: |"]
    for each in trial.compared.pairs:
        task = " ".join(each.task.split()).replace("|", "\\|")[:120]
        calls = f"{each.calls[0]} · {each.calls[1]}"
        rows.append(f"| {task} | {_MARKS[each.present]} | {_MARKS[each.tried]} | {calls} |")
    names = ("kind", "unit", "at", "did", "against", "proposal")
    values = {name: getattr(trial, name) for name in names}
    body = f"# Trial of {trial.unit}\n\n{trial.compared.told}\n\n" + "\n".join(rows)
    return with_head({**values, "pairs": pairs}, body)
