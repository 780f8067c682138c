"""`fractal ls`, `show`, `tree`, `cost`, `diff` and `prompt`: what documents say, for people and programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import json_option, opened, put, run_argument, tell
from runtime.cli.words import MARKS, call, elide, line, local, money, pad, safe, table, tokens, width

if TYPE_CHECKING:
    from kernel.document import Document, Step
    from runtime.fractal import Fractal
    from runtime.results import RunSummary

NEWEST = 20
"""Runs that `ls` shows without `--all`."""
RENDERED = 300_000
"""Bytes of a document up to which it is rendered for a terminal; a larger one is shown as it is."""
FIGURES = ("calls", "prompt_tokens", "instruction_tokens", "completion_tokens", "usd")


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help=f"All of them, not only the newest {NEWEST}.")
@json_option("Print a list of objects.")
def ls(everything: bool, as_json: bool) -> None:
    """List runs, newest first: status, when, loops, cost, task."""
    fractal = opened()
    found = fractal.runs()
    shown = found if everything else found[:NEWEST]
    if as_json:
        put(json.dumps([_summary(fractal, each) for each in shown], indent=2))
        return
    if not found:
        tell(f'no runs in {fractal.workspace.runs}; start one: fractal run "…"')
        return
    head = ["RUN", "STATUS", "WHEN", "LOOPS", "COST"]
    rows = [head, *(_cells(fractal, each) for each in shown)]
    lines = table(rows, right=(3, 4))
    room = max(_columns() - max(map(width, lines)) - 2, 20)
    whole = max(map(width, lines))
    for text, each in zip(lines, [None, *shown], strict=True):
        task = elide(each.task, room) if each else "TASK"
        out = f"{pad(text, whole)}  {task}"
        if each:
            status = _status(fractal, each)
            out = out.replace(status, click.style(status, fg=MARKS.get(status, ("", None))[1]), 1)
        click.echo(out if each else click.style(out, dim=True))
    if len(found) > len(shown):
        tell(f"… and {len(found) - len(shown)} more; fractal ls --all")


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 120


def _cells(fractal: Fractal, each: RunSummary) -> list[str]:
    cost = money(each.spent.get("usd", 0)) if each.spent else ""
    loops = str(len(_loops(fractal, each.run)))
    return [each.run, _status(fractal, each), local(each.created), loops, cost]


def _loops(fractal: Fractal, run: str) -> list[Path]:
    folder = fractal.workspace.runs / run
    return [path for kind in ("system", "tool", "op") for path in folder.glob(f"{kind}-*.md")]


def _status(fractal: Fractal, each: RunSummary) -> str:
    """The status on disk; a run that no process works on any more has been interrupted."""
    if each.status not in ("running", "ready"):
        return each.status
    from kernel.workspace import is_locked

    try:
        return each.status if is_locked(fractal.workspace.runs / each.run) else "interrupted"
    except OSError:
        return each.status


def _summary(fractal: Fractal, each: RunSummary) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(each) | {
        "status": _status(fractal, each),
        "spent": dict(each.spent),
        "loops": len(_loops(fractal, each.run)),
    }


@click.command()
@run_argument("name", required=False)
@click.option("--raw", is_flag=True, help="The file as it is, on a terminal as well.")
def show(name: str, raw: bool) -> None:
    """Show a document: RUN for its root, or the id or path of any. In a pipe, the file as it is."""
    path = opened().path(name)
    data = path.read_bytes()
    if raw or not sys.stdout.isatty() or len(data) > RENDERED:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    from runtime.cli.rendered import print_document

    print_document(safe(data.decode("utf-8", "replace")))


# ---- tree ------------------------------------------------------------------------------------------------


@click.command()
@run_argument(required=False)
def tree(run: str) -> None:
    """Show a run's loops and steps from its documents, each with its status and its file."""
    fractal = opened()
    name = fractal.find(run)
    documents = _readable(fractal, name)
    root = next((key for key in documents if key.startswith("system-")), "")
    seen: set[str] = set()
    for text in _branch(documents, root, "", "", seen):
        click.echo(text)
    for stray in [key for key in documents if key not in seen]:
        click.echo(f"not linked by any step: {stray}.md")


def _readable(fractal: Fractal, run: str) -> dict[str, Document | str]:
    """All documents of a run by id; for one that cannot be read, what is wrong with it."""
    from kernel.errors import DocumentError

    found: dict[str, Document | str] = {}
    for path in sorted(_loops(fractal, run), key=lambda path: len(path.name)):
        try:
            found[path.stem] = fractal.document(path.stem)
        except DocumentError as error:
            found[path.stem] = str(error)
    return found


def _branch(
    documents: Mapping[str, Document | str], key: str, guide: str, under: str, seen: set[str]
) -> Iterator[str]:
    seen.add(key)
    document = documents.get(key, "the document is missing")
    if isinstance(document, str):
        yield f"{guide}{_mark('broken')} {key}.md: {line(document)}"
        return
    meta = document.meta
    spent = f"  {money(meta.spent.get('usd', 0))}" if meta.spent else ""
    status = "unverified" if meta.unverified and meta.status == "complete" else meta.status
    tail = f"{status}{spent}  {key}.md"
    kind = "" if meta.type == "task" else f"{meta.type}: "
    yield _joined(f"{guide}{_mark(meta.status)} ", kind + document.text(1, "task"), tail, bold=not guide)
    steps = {**document.planned, **document.steps}
    for at, n in enumerate(sorted(steps)):
        last = at == len(steps) - 1
        branch, below = (f"{under}└─ ", f"{under}   ") if last else (f"{under}├─ ", f"{under}│  ")
        child = steps[n].link.removesuffix(".md")
        if child and not child.startswith("op-"):
            yield from _branch(documents, child, f"{branch}{n} ", below, seen)
        else:
            seen.add(child)
            yield _step(steps[n], branch)


def _step(step: Step, branch: str) -> str:
    label = call(step.tool, step.args, 300) if step.args else f"{step.tool or 'subtask'}: {step.what}"
    return _joined(f"{branch}{step.n} {_mark(step.state)} ", label, f"{step.state}  {step.link}".rstrip())


def _joined(lead: str, label: str, tail: str, *, bold: bool = False) -> str:
    """One line: what leads, a label that is cut to the room there is, and what stands at the end."""
    room = max(_columns() - width(click.unstyle(lead)) - width(tail) - 2, 16)
    label = elide(label, room)
    return f"{lead}{click.style(pad(label, room), bold=bold)}  {click.style(tail, dim=True)}"


def _mark(status: str) -> str:
    sign, colour = MARKS.get(status, ("·", "white"))
    return click.style(sign, fg=colour)


# ---- cost ------------------------------------------------------------------------------------------------


@click.command()
@run_argument(required=False)
@json_option("Print the rows and totals as an object.")
def cost(run: str, as_json: bool) -> None:
    """Show what a run cost, by loop, phase and rung; instruction tokens are a part of the prompt's."""
    documents = opened().documents(run)
    rows = list(_costs(documents))
    charged = dict(documents[0].meta.spent)
    total = {name: round(sum(row[name] for row in rows), 9) for name in FIGURES}
    if as_json:
        put(json.dumps({"rows": rows, "total": total, "charged": charged}, indent=2))
        return
    head = ["LOOP", "PHASE", "RUNG", "CALLS", "PROMPT", "INSTR", "REPLY", "USD"]
    shown = [[row["loop"], _phase(row), line(row["rung"]), *_figures(row)] for row in rows]
    lines = table([head, *shown, ["total", "", "", *_figures(total)]], right=(3, 4, 5, 6, 7))
    click.echo(click.style(lines[0], dim=True))
    for text in lines[1:-1]:
        click.echo(text)
    click.echo(click.style(lines[-1], bold=True))
    calls = charged.get("calls", 0) - total["calls"]
    if calls > 0 or charged.get("usd", 0) > total["usd"] + 1e-9:
        click.echo(
            f"charged in all: {charged['calls']} calls, {money(charged.get('usd'))} (with failed calls)"
        )


def _costs(documents: list[Document]) -> Iterator[dict[str, Any]]:
    keys = {"prompt_tokens": "prompt", "instruction_tokens": "instr", "completion_tokens": "out"}
    for document in documents:
        for entry in document.meta.rungs:
            if entry.get("passed") and not entry.get("calls"):
                continue
            figures = {name: entry.get(keys.get(name, name)) or 0 for name in FIGURES}
            yield {
                "loop": document.meta.id,
                "attempt": entry.get("attempt", 1),
                "phase": str(entry.get("phase", "")),
                "rung": str(entry.get("model") or entry.get("rung", "")),
                **figures,
            }


def _phase(row: Mapping[str, Any]) -> str:
    return row["phase"].upper() + (f" ({row['attempt']})" if row["attempt"] > 1 else "")


def _figures(row: Mapping[str, Any]) -> list[str]:
    counts = [f"{int(row[name]):,}" for name in FIGURES[:-1]]
    return [*counts, money(row["usd"])]


# ---- diff and prompt -------------------------------------------------------------------------------------


@click.command()
@run_argument(required=False)
def diff(run: str) -> None:
    """Show which files a run changed, and what a person has changed in its documents since it left them."""
    from kernel.store import FileStore
    from runtime.cli.changes import changed, edited, recorded_diffs, step_diffs

    fractal = opened()
    documents = fractal.documents(run)
    lines = changed(documents)
    store = FileStore(fractal.workspace.runs / fractal.find(run))
    edits = [text for document in documents if (text := edited(store, document.meta.id))]
    if not lines and not edits:
        tell("no file was changed, as far as the documents tell, and no document by hand")
    for text in lines:
        click.echo(safe(text))
    for text in [*(step_diffs(documents, store.folder) or recorded_diffs(documents)), *edits]:
        click.echo()
        for each in safe(text).rstrip("\n").split("\n"):
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(each[:1])
            click.echo(click.style(each, fg=colour) if colour else each)


@click.command()
@run_argument("doc")
@click.option("--step", type=int, default=0, help="In DO: the step that is asked for.")
@json_option("Print the messages and the tokens of each part as an object.")
def prompt(doc: str, step: int, as_json: bool) -> None:
    """Print exactly what the next call for a document would send; tokens by part go to standard error."""
    phase, made = opened().prompt(doc, step)
    if as_json:
        parts = [{"part": name, "tokens": count} for name, count in made.parts]
        value = {"phase": phase, "system": made.system, "user": made.user, "parts": parts}
        put(json.dumps(value | {"instruction_tokens": made.instruction_tokens}, indent=2))
        return
    put(f"{made.system}\n\n{made.user}")
    rows = [[name, str(count)] for name, count in made.parts]
    whole = sum(count for _, count in made.parts)
    rows += [["instructions", str(made.instruction_tokens)], ["in all", f"{whole} ({tokens(whole)})"]]
    tell(f"\n{phase.upper()}, tokens by part:\n" + "\n".join(table(rows)))
