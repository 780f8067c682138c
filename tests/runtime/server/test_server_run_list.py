"""Runs are listed page by page, from the heads of their documents."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from serving import served

from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section
from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.server.client import Client, ServerError
from runtime.server.run_list import RunList

MANY = 10_000


def put(
    work: Path, run: str, status: str = "complete", *, task: str = "do it", minute: int = 0, **meta
) -> Path:
    """The root document of a run that began in that minute."""
    created = f"2026-01-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"
    head = Meta(f"system-{run}", run, status=status, created=created, **meta)
    path = work / "state" / "runs" / run / f"system-{run}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(render(Document(head, {1: Section(notes=(Note("task", task, "person"),))}), 1))
    return path


def test_pages_are_complete_and_in_order_and_follow_what_changes(work: Path) -> None:
    statuses = ["complete", "waiting", "running", "failed"]
    for n in range(20):
        put(work, f"r{n:05d}", statuses[n % 4], minute=n)
    put(work, "unsure", minute=20, unverified=True)
    (broken := put(work, "broken", minute=21)).write_text("no document")
    (work / "state" / "runs" / "empty").mkdir()
    (work / "state" / "runs" / "file").touch()
    reader = RunList(Fractal(work))

    def listed(limit: int = 100, **query: Any) -> list[str]:
        return [each.run for each in reader.page(limit, **query).runs]

    newest = [f"r{n:05d}" for n in range(19, -1, -1)]
    assert listed() == ["broken", "unsure", *newest], "one without a time is as old as its file"
    pages, before = list[str](), ""
    while some := listed(7, before=before):
        pages += some
        before = some[-1]
    assert pages == listed() == [*listed(7), *listed(skip=7)]
    assert (reader.page(5, before="r00003").total, reader.page(5, skip=30).total) == (3, 22)
    with pytest.raises(UsageError, match="there is no run nosuch"):
        reader.page(5, before="nosuch")
    assert listed(status="waiting") == [f"r{n:05d}" for n in (17, 13, 9, 5, 1)]
    assert listed(status="unverified") == ["unsure"]
    assert listed(status="running") == [], "no process works on them"
    assert len(listed(status="interrupted")) == 5

    put(work, "sorted", "waiting", task="Sort\nthe LISTE der Straße", minute=9)
    for text in ("sort liste", "STRASSE", "sorted", " the  sort "):
        assert listed(text=text) == ["sorted"]
        assert listed(text=text, status="waiting", before="r00010") == ["sorted"]
        assert listed(text=text, status="failed") == listed(text=text, before="r00009") == []
    assert reader.page(3, text="do it").total == 21, "words of the task; one is broken"
    assert listed(text="r0001") == [f"r{n:05d}" for n in range(19, 9, -1)]
    (work / "state" / "runs" / "sorted" / "system-sorted.md").unlink()
    assert listed(text="sort") == []

    put(work, "r00001", "cancelled", minute=1)
    put(work, "zzzzzz", "waiting", minute=60)
    broken.unlink()
    assert listed(status="waiting") == ["zzzzzz", *[f"r{n:05d}" for n in (17, 13, 9, 5)]]
    assert listed()[0] == "zzzzzz" and "broken" not in listed()
    assert RunList(Fractal(work)).page(100) == reader.page(100)


@pytest.mark.night
@pytest.mark.alone
def test_ten_thousand_runs_are_listed_and_filtered_quickly(work: Path) -> None:
    """0.4 s of CPU where no head is known yet, 0.1 s afterwards; by words 1.7 s and 0.3 s."""
    text = put(work, "r00000", "waiting", minute=0, task="word " * 300).read_text()
    for n in range(1, MANY):
        minute = f"2026-01-{1 + n // 1440:02d}T{n // 60 % 24:02d}:{n % 60:02d}:00Z"
        own = text.replace("r00000", f"r{n:05d}").replace("2026-01-01T00:00:00Z", minute)
        folder = work / "state" / "runs" / f"r{n:05d}"
        folder.mkdir()
        (folder / f"system-r{n:05d}.md").write_text(
            own if n % 1000 == 0 else own.replace("waiting", "complete")
        )
    with served(work) as server, Client(server.url) as client:
        seconds: list[float] = []
        words = {"text": "r049 word"}
        for query in ({}, words, {}, words, {"status": "waiting"}, {"before": "r05000"}):
            began = time.monotonic()
            page = client.runs(**query)
            seconds.append(time.monotonic() - began)
        assert (page.runs[0].run, page.more) == ("r04999", 5_000 - 50)
        assert len(page.runs[0].task) == 500
        waiting = [f"r{n:05d}" for n in range(9_000, -1, -1_000)]
        assert [each.run for each in client.runs(status="waiting").runs] == waiting
        with pytest.raises(ServerError, match="there is no run"):
            client.runs(before="nosuch")
        assert max(seconds[:2]) < 20 and max(seconds[2:]) < 5, seconds
