"""Three tables of SQLite for analysis: what memory decided, how it grew, what its dreams did.

They are an export: the records on the shelf have all of it already, in any store, and are kept in one place
only. Views inside the store would bind its format to these columns, and would not exist in the other stores.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kernel.errors import StorageError
from runtime.memory.dream.stages import DreamRecord
from runtime.memory.store import Shelf
from runtime.memory.tasks.decisions import Decision, in_order
from runtime.memory.tasks.snapshots import KINDS, all_of
from runtime.secrets.redaction import redact

EXECUTION = {
    "exact": "neuron_exact",
    "variation": "neuron_variation",
    "method": "knowledge",
    "direct": "knowledge",
    "novel": "llm",
}
"""The seed's names of the ways to meet a task, by ours. Source: seed 000_39bad3da279292ba, "Telemetry"."""
RECALL = ("embed", "find", "align", "bind")
"""The parts of a decision's time that are recall."""

Table = tuple[str, Iterable[Mapping[str, Any]]]


def tables(shelf: Shelf) -> Iterator[Table]:
    """The name and the rows of each table, oldest first."""
    yield "brain_events", map(_event, in_order(shelf))
    yield "brain_snapshots", _snapshots(shelf)
    yield "dream_events", _dreams(shelf)


def write(shelf: Shelf, path: Path) -> dict[str, int]:
    """Write the tables to a new file of SQLite; returns the number of rows of each. Raises `StorageError`."""
    counts: dict[str, int] = {}
    with _errors(path), closing(sqlite3.connect(path)) as base, base:
        for name, columns in COLUMNS.items():
            base.execute(f"CREATE TABLE {name} ({columns}) STRICT")
        for name, rows in tables(shelf):
            counts[name] = 0
            for row in rows:
                marks = ", ".join(f":{column}" for column in row)
                values = {column: _plain(value) for column, value in row.items()}
                base.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})", values)
                counts[name] += 1
    return counts


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"{path.parent}: the tables cannot be written there: {error}") from None


def _plain(value: Any) -> Any:
    """A value without secrets, and without half characters, which SQLite does not take."""
    return redact(value).encode("utf-8", "replace").decode() if isinstance(value, str) else value


COLUMNS = {
    "brain_events": """id TEXT PRIMARY KEY, run TEXT, at TEXT, task TEXT, substrate TEXT, recognition TEXT,
        tree TEXT, method TEXT, recall_type TEXT, path TEXT, execution_path TEXT, calls INTEGER,
        calls_before INTEGER, working_memory_size INTEGER, candidate_count INTEGER, predicted_confidence REAL,
        outcome INTEGER, outcome_source TEXT, surprise REAL, recognition_ms REAL, recall_ms REAL,
        total_brain_ms REAL""",
    "brain_snapshots": "n INTEGER PRIMARY KEY, at TEXT, answered_share REAL, right_share REAL, "
    f"calls INTEGER, calls_saved INTEGER, {', '.join(f'{name} INTEGER' for name in KINDS)}",
    "dream_events": """dream TEXT, at TEXT, stage TEXT, form TEXT, changed INTEGER, seconds REAL,
        calls INTEGER, tokens INTEGER, usd REAL, counts TEXT, did TEXT, PRIMARY KEY (dream, stage)""",
}
"""The columns of each table. What is not known is NULL; `counts` and `did` are JSON."""


def _event(decision: Decision) -> dict[str, Any]:
    ms, predicts = decision.ms, decision.predicts
    return {
        "id": decision.id,
        "run": decision.run,
        "at": decision.at,
        "task": decision.text,
        "substrate": decision.type or None,
        "recognition": decision.recognition,
        "tree": decision.tree or None,
        "method": decision.method or None,
        "recall_type": decision.path if decision.path in ("exact", "variation") else "novel",
        "path": decision.path,
        "execution_path": EXECUTION[decision.path],
        "calls": decision.calls,
        "calls_before": decision.calls_before,
        "working_memory_size": decision.candidates,
        "candidate_count": decision.similar,
        "predicted_confidence": decision.predicted if predicts else None,
        "outcome": decision.outcome,
        "outcome_source": decision.source or None,
        "surprise": decision.surprise,
        "recognition_ms": ms.get("recognise"),
        "recall_ms": sum(ms.get(part, 0.0) for part in RECALL) if ms else None,
        "total_brain_ms": sum(ms.values()) if ms else None,
    }


def _snapshots(shelf: Shelf) -> Iterator[dict[str, Any]]:
    for each in all_of(shelf):
        yield {
            "n": each.n,
            "at": each.at,
            "answered_share": each.answered,
            "right_share": each.right,
            "calls": each.calls,
            "calls_saved": each.calls_saved,
            **{name: each.sizes.get(name, 0) for name in KINDS},
        }


def _dreams(shelf: Shelf) -> Iterator[dict[str, Any]]:
    for dream in sorted(shelf.scan(DreamRecord), key=lambda each: (each.at, each.id)):
        for stage, record in dream.stages.items():
            yield {
                "dream": dream.id,
                "at": record.at,
                "stage": stage,
                "form": record.form,
                "changed": record.changed,
                "seconds": record.seconds,
                "calls": record.asked.get("calls", 0),
                "tokens": record.asked.get("tokens", 0),
                "usd": record.asked.get("usd"),
                "counts": json.dumps(record.counts),
                "did": json.dumps(record.did, ensure_ascii=False),
            }
