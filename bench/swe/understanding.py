"""What the first message of a run of each fix holds: its tokens, and whether it shows what the fix changes.

No model is asked. A function that the fix changes counts as shown if every line of it is, but for a docstring
that the fix leaves as it is. Tokens are bytes / 4, as in `proxy.py`.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import Figures, markdown
from bench.swe.comparison import ENVIRONMENTS, source_of
from bench.swe.fixes import Fix, Source, lay_out, read, version_control
from bench.swe.proxy import BYTES, canonical
from kernel.asking.messages import sent
from kernel.asking.responder import Ask, Ladder
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.sandbox.tests_by_name import is_test
from runtime.understanding.source import Definition
from runtime.understanding.source import Source as Text
from runtime.workspace.allowed import VARIABLE

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+")
_NUMBERED = re.compile(r"^(\d+)\t", re.M)
_SHOWN = re.compile(r"^## ([^\n]+)\n(`{3,})\n(.*?)\n\2$", re.M | re.S)


def measure(
    *,
    repositories: Path | None = None,
    environments: Path | None = None,
    sets: Sequence[str] = (),
    jobs: str = "",
    work: Path | None = None,
) -> Figures:
    """A row for each fix of the sets (tuning by default), and their sums; see `row_of`.

    jobs: names with commas between them; "" for all. work: a folder that gets the messages.
    """
    names = [name for name in jobs.split(",") if name]
    listed = [
        each for each in read() if each.set in (sets or ("tuning",)) and (not names or each.name in names)
    ]
    source = source_of(repositories, environments or ENVIRONMENTS, listed)
    rows = [row_of(source, fix, work) for fix in listed]
    return {"rows": rows, "sums": _sums(rows)}


def row_of(source: Source, fix: Fix, work: Path | None = None) -> dict[str, Any]:
    """What a run of a fix asks first.

    The row has `tokens` (those of `declared` and of the `listing` are among them), the number of `functions`
    that the fix changes, the titles of the `missing` ones, the hidden test files by whether they are `shown`
    or `named`, and `seconds`.
    """
    with tempfile.TemporaryDirectory(prefix="understanding-") as name:
        folder = Path(name).resolve()
        lay_out(source, fix, folder, f"{fix.commit}^")
        version_control(folder)
        begun = time.monotonic()
        ask = first_ask(folder, fix.task)
        seconds = time.monotonic() - begun
        message = str(sent(ask)[-1]["content"])
        if work:
            (work / f"{fix.name}.md").write_text(message, "utf-8")
        lines = shown_lines(message)
        wanted = list(changed(source, fix, folder))
    listed = re.search(r"^## Folder\n(`{3,})\n.*?\n\1$", message, re.M | re.S)
    return {
        "fix": fix.name,
        "set": fix.set,
        "tokens": len(canonical({"tools": ask.tools, "messages": sent(ask)})) // BYTES,
        "declared": len(canonical({"tools": ask.tools})) // BYTES,
        "listing": len(listed[0].encode()) // BYTES if listed else 0,
        "functions": len(wanted),
        "missing": [each.title for each, parts in wanted if not parts <= lines.get(each.path, set())],
        "tests": len(fix.tests),
        "shown": sum(path in lines for path in fix.tests),
        "named": sum(path.rpartition("/")[2] in message for path in fix.tests),
        "seconds": round(seconds, 2),
    }


def first_ask(folder: Path, task: str) -> Ask:
    """What a run of a task asks first in a folder, of which all is allowed."""
    os.environ[VARIABLE] = "all"
    model = Scripted(lambda ask: {"calls": [{"tool": "cannot", "args": {"why": "nobody is here"}}]})
    settings = {"fsync": False, "sandbox": "off", "remember": False}
    fractal = Fractal(folder, settings=settings, ladder=Ladder((model,)))
    asyncio.run(fractal.run(task))
    fractal.brain.close()
    return model.asks[0]


def shown_lines(message: str) -> dict[str, set[int]]:
    """The numbers of the lines that a message shows of each file."""
    found: dict[str, set[int]] = {}
    for title, _, text in _SHOWN.findall(message):
        path = re.sub(r" \([\d,]+ lines\)$", "", title)
        if numbers := set(map(int, _NUMBERED.findall(text))):
            found.setdefault(path, set()).update(numbers)
    return found


def changed(source: Source, fix: Fix, folder: Path) -> Iterator[tuple[Definition, set[int]]]:
    """The functions outside of tests that a fix changes, each with the lines that are to be shown."""
    diff = source.git(fix, "diff", "-U0", "--no-renames", f"{fix.commit}^", fix.commit).decode(
        "utf-8", "replace"
    )
    for part in diff.split("diff --git ")[1:]:
        path = next((line[6:] for line in part.split("\n") if line.startswith("--- a/")), "")
        if not path.endswith(".py") or is_test(path):
            continue
        text = Text(path, (folder / path).read_bytes())
        touched = set[int]()
        for hunk in filter(None, map(_HUNK.match, part.split("\n"))):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            touched.update(range(first, first + count) if count else [first])
        found = dict.fromkeys(text.enclosing(line, "function") for line in sorted(touched))
        for each in filter(None, found):
            lines = {line for line in each.lines if text.lines[line - 1].strip()}
            yield each, lines - (set(text.docstring(each)) - touched)


def _sums(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    every = len(rows) or 1
    return {
        "mean tokens": sum(row["tokens"] for row in rows) // every,
        "functions": sum(row["functions"] for row in rows),
        "missing": sum(len(row["missing"]) for row in rows),
        "fixes shown whole": sum(not row["missing"] for row in rows),
        "fixes": len(rows),
    }


def table(figures: Figures) -> str:
    """The figures as markdown."""
    cells = [
        [
            row["fix"],
            f"{row['tokens']:,}",
            row["declared"],
            row["listing"],
            f"{row['functions'] - len(row['missing'])} of {row['functions']}",
            f"{row['shown']} of {row['tests']}",
            f"{row['named']} of {row['tests']}",
            row["seconds"],
        ]
        for row in figures["rows"]
    ]
    heads = [
        "fix",
        "tokens",
        "declared",
        "listing",
        "functions shown",
        "test files shown",
        "test files named",
        "s",
    ]
    missing = [f"- {row['fix']}: {each}" for row in figures["rows"] for each in row["missing"]]
    sums = ", ".join(f"{name}: {value:,}" for name, value in figures["sums"].items())
    return "\n\n".join([markdown(heads, cells), "\n".join(["Not shown whole:", *missing]), sums])
