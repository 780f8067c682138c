"""The log of a bench run, a line of JSON for each thing that it did; and the figures of it."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import RunLocked, StorageError, UsageError
from kernel.events import now
from runtime import locks

Line = Mapping[str, Any]


@dataclass
class BenchLog:
    """`state/benchmarks/ID.jsonl`. What was appended is on disk; a line that a crash has torn is dropped."""

    path: Path

    @staticmethod
    def create(folder: Path, header: Mapping[str, Any]) -> BenchLog:
        """The log of a new bench run, named for its suite and the time."""
        began = now()
        name = f"{Path(header['suite']).stem}-{began[:19].translate({ord(each): None for each in '-:T'})}"
        number = 1
        while True:
            id = f"{name}-{number}" if number > 1 else name
            log = BenchLog(folder / f"{id}.jsonl")
            with disk.writing_state(log.path):
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    disk.create(log.path, _line({"bench": id, "at": began, **header}))
                    return log
                except FileExistsError:
                    number += 1

    @staticmethod
    def find(folder: Path, id: str) -> BenchLog:
        """The log of a bench run by its id, or a beginning of it. Raises `UsageError`."""
        ids = sorted(path.stem for path in folder.glob("*.jsonl"))
        found = [each for each in ids if each == id] or [each for each in ids if each.startswith(id)]
        if len(found) != 1:
            known = ", ".join((found or ids)[-6:]) or "none yet"
            raise UsageError(
                f"{len(found) or 'no'} bench runs in {folder} begin with {id}; there are {known}"
            )
        return BenchLog(folder / f"{found[0]}.jsonl")

    @property
    def id(self) -> str:
        """The id of the bench run."""
        return self.path.stem

    def lines(self) -> list[Line]:
        """Every whole line; raises `StorageError` for one that cannot be read."""
        lines: list[Line] = []
        with disk.reading_state(self.path):
            text = self.path.read_bytes()
        for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), 1):
            try:
                value = json.loads(line)
                if not isinstance(value, dict) or (number == 1 and "suite" not in value):
                    raise ValueError("it is no line of a bench run")
            except ValueError as error:
                raise StorageError(f"{self.path}:{number}: {error}; remove the line, or the file") from None
            lines.append(value)
        if not lines:
            raise StorageError(f"{self.path}: it is empty; remove it and start a new bench run")
        return lines

    def summary(self) -> dict[str, Any]:
        """The bench run as an object: its settings, figures, figures by family, and the learning curve."""
        lines = self.lines()
        done = results(lines)
        families = dict.fromkeys(str(each["family"]) for each in done)
        return {
            **lines[0],
            "finished": any("finished" in each for each in lines),
            **shares(done),
            "families": {
                name: shares([each for each in done if each["family"] == name]) for name in families
            },
            "snapshots": [each for each in lines if "snapshot" in each],
            "dreams": [each["dream"] for each in lines[1:] if "dream" in each],
        }

    @contextmanager
    def held(self) -> Generator[None]:
        """Alone with the log, and without a torn line. Raises `RunLocked`."""
        busy = RunLocked(f"the bench run {self.id} is at work in another process")
        with locks.lock(self.path, 0.5, lambda: busy):
            text = self.path.read_bytes()
            if not text.endswith(b"\n"):
                disk.cut(self.path, text.rfind(b"\n") + 1)
            yield

    def append(self, line: Line) -> None:
        """Add a line; it is on disk when this returns."""
        with disk.writing_state(self.path):
            disk.append(self.path, _line(line))


def _line(values: Line) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode() + b"\n"


def results(lines: Sequence[Line]) -> list[Line]:
    """The lines of problems that are done, in order."""
    return [each for each in lines if "right" in each]


def shares(done: Sequence[Line]) -> dict[str, Any]:
    """Figures of problems: shares right and without a model, and what they took."""
    size = max(len(done), 1)
    return {
        "problems": len(done),
        "accuracy": round(sum(each["right"] for each in done) / size, 4),
        "without_model": round(sum(is_free(each) for each in done) / size, 4),
        "calls": sum(each["calls"] for each in done),
        "tokens": sum(each["tokens"] for each in done),
        "usd": round(sum(each["usd"] for each in done), 6),
        "seconds": round(sum(each["seconds"] for each in done), 1),
    }


def is_free(done: Line) -> bool:
    """Whether a problem was answered without a model."""
    return not done["calls"] and bool(done["answer"] or done["right"])
