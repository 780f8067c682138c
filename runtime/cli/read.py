"""`fractal ls`, `show`, `tree`, `cost`, `diff` and `prompt`: what documents say, for people and programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kernel import disk
from runtime.cli.session import columns, json_option, opened, put, run_argument, tell
from runtime.cli.words import MARKS, call, elide, fitted, line, local, money, pad, safe, table, tokens, width

if TYPE_CHECKING:
    from kernel.changes import Change
    from kernel.document import Document, Step
    from kernel.store import FileStore
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
    found = fractal.runs(None if everything else NEWEST)
    if as_json:
        put(json.dumps([_summary(fractal, each) for each in found], indent=2))
        return
    if not found:
        tell(f'no runs in {fractal.workspace.runs}; start one: fractal run "…"')
        return
    head = ["RUN", "STATUS", "WHEN", "LOOPS", "COST"]
    rows = [head, *(_cells(fractal, each) for each in found)]
    lines = table(rows, right=(3, 4))
    room = max(columns(120) - max(map(width, lines)) - 2, 20)
    whole = max(map(width, lines))
    for text, each in zip(lines, [None, *found], strict=True):
        task = elide(each.task, room) if each else "TASK"
        out = f"{pad(text, whole)}  {task}"
        if each:
            status = _status(fractal, each.run, each.status)
            out = out.replace(status, click.style(status, fg=MARKS.get(status, ("", None))[1]), 1)
        click.echo(out if each else click.style(out, dim=True))
    roots = len(disk.matching(fractal.workspace.runs, "*/system-*.md"))
    if not everything and (more := roots - len(found)) > 0:
        tell(f"… and {more} more; fractal ls --all")


def _cells(fractal: Fractal, each: RunSummary) -> list[str]:
    cost = money(each.spent.get("usd", 0)) if each.spent else ""
    loops = str(len(_loops(fractal, each.run)))
    return [each.run, _status(fractal, each.run, each.status), local(each.created), loops, cost]


def _loops(fractal: Fractal, run: str) -> list[str]:
    from kernel.store import FileStore

    return FileStore(fractal.workspace.runs / run).list()


def _status(fractal: Fractal, run: str, status: str) -> str:
    """The status on disk; a run that no process works on any more has been interrupted."""
    if status not in ("running", "ready"):
        return status
    from kernel.workspace import is_locked

    try:
        return status if is_locked(fractal.workspace.runs / run) else "interrupted"
    except OSError:
        return status


def _summary(fractal: Fractal, each: RunSummary) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(each) | {
        "status": _status(fractal, each.run, each.status),
        "spent": dict(each.spent),
        "loops": len(_loops(fractal, each.run)),
    }


@click.command()
@run_argument("name", required=False)
@click.option("--raw", is_flag=True, help="The file as it is, on a terminal as well.")
@click.option("--meta", is_flag=True, help="All of META, on a terminal as well.")
@json_option("Print the document as an object: meta, and each section with its notes and steps.")
def show(name: str, raw: bool, meta: bool, as_json: bool) -> None:
    """Show a document: RUN for its root, or the id or path of any. In a pipe, the file as it is."""
    fractal = opened()
    if as_json:
        put(json.dumps(_as_object(fractal.document(name)), indent=2, ensure_ascii=False))
        return
    path = fractal.path(name)
    data = path.read_bytes()
    if raw or not sys.stdout.isatty() or len(data) > RENDERED:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    from runtime.cli.rendered import print_document

    print_document(safe(data.decode("utf-8", "replace")), whole=meta)


def _as_object(document: Document) -> dict[str, Any]:
    """A document as plain values; what is empty is left out."""
    from dataclasses import asdict

    def full(value: Any) -> Any:
        return {key: each for key, each in asdict(value).items() if each not in ("", (), {}, None)}

    sections: dict[str, Any] = {}
    for number, section in sorted(document.sections.items()):
        parts = {
            "notes": [full(note) for note in section.notes],
            "folds": [full(fold) for fold in section.folds],
            "steps": [full(step) for step in section.steps.values()],
        }
        sections[str(number)] = {key: each for key, each in parts.items() if each}
    return {"meta": asdict(document.meta), "sections": sections}


# ---- tree ------------------------------------------------------------------------------------------------


@click.command()
@run_argument(required=False)
@json_option("Print the loops as nested objects: id, status, task, spent, steps.")
def tree(run: str, as_json: bool) -> None:
    """Show a run's loops and steps from its documents, each with its status and its file."""
    fractal = opened()
    name = fractal.find(run)
    documents = _readable(fractal, name)
    root = next((key for key in documents if key.startswith("system-")), "")
    top = documents.get(root, "")
    if not isinstance(top, str) and _status(fractal, name, top.meta.status) == "interrupted":
        documents = {key: _stopped(document) for key, document in documents.items()}
    if as_json:
        put(json.dumps(_nested(documents, root), indent=2, ensure_ascii=False))
        return
    seen: set[str] = set()
    for text in _branch(documents, root, "", "", seen):
        click.echo(text)
    for stray in [key for key in documents if key not in seen]:
        click.echo(f"not linked by any step: {stray}.md")


def _nested(documents: Mapping[str, Document | str], key: str) -> dict[str, Any]:
    """A loop with its steps; a step that is a loop holds it."""
    document = documents.get(key, "the document is missing")
    if isinstance(document, str):
        return {"id": key, "status": "broken", "error": document}
    meta = document.meta
    told = {"id": key, "type": meta.type, "level": meta.level, "status": meta.status}
    told |= {"unverified": True} if meta.unverified else {}
    steps: list[dict[str, Any]] = []
    for n, step in sorted({**document.planned, **document.steps}.items()):
        each = {"n": n, "tool": step.tool, "what": step.what, "args": step.args, "state": step.state}
        child = step.link.removesuffix(".md")
        each |= {"loop": _nested(documents, child)} if child in documents else {}
        steps.append({name: value for name, value in each.items() if value not in ("", None)})
    return {**told, "task": document.text(1, "task"), "spent": dict(meta.spent), "steps": steps}


def _stopped(document: Document | str) -> Document | str:
    """The document of a run that was interrupted: nothing in it is at work any more."""
    if isinstance(document, str):
        return document
    for step in document.steps.values():
        if step.state == "running":
            document = document.with_step(replace(step, state="interrupted"))
    at_work = document.meta.status in ("running", "ready")
    return document.having(status="interrupted") if at_work else document


def _readable(fractal: Fractal, run: str) -> dict[str, Document | str]:
    """All documents of a run by id; for one that cannot be read, what is wrong with it."""
    from kernel.errors import DocumentError

    found: dict[str, Document | str] = {}
    for loop_id in _loops(fractal, run):
        try:
            found[loop_id] = fractal.document(loop_id)
        except DocumentError as error:
            found[loop_id] = str(error)
    return found


def _branch(
    documents: Mapping[str, Document | str], key: str, guide: str, under: str, seen: set[str]
) -> Iterator[str]:
    from runtime.undoing import undone_steps

    seen.add(key)
    document = documents.get(key, "the document is missing")
    if isinstance(document, str):
        yield f"{guide}{_mark('broken')} {key}.md: {line(document)}"
        return
    meta = document.meta
    spent = f"  {money(meta.spent.get('usd', 0))}" if meta.spent else ""
    tail = f"{meta.word}{spent}  {key}.md"
    kind = "" if meta.type == "task" else f"{meta.type}: "
    yield _joined(f"{guide}{_mark(meta.word)} ", kind + document.text(1, "task"), tail, bold=not guide)
    steps = {**document.planned, **document.steps}
    taken_back = undone_steps(document)
    for at, n in enumerate(sorted(steps)):
        last = at == len(steps) - 1
        branch, below = (f"{under}└─ ", f"{under}   ") if last else (f"{under}├─ ", f"{under}│  ")
        child = steps[n].link.removesuffix(".md")
        if child and steps[n].share is not None:  # a loop; an operation's document is named by its step
            yield from _branch(documents, child, f"{branch}{n} ", below, seen)
        else:
            seen.add(child)
            yield _step(steps[n], branch, ", undone" if n in taken_back else "")


def _step(step: Step, branch: str, then: str) -> str:
    label = call(step.tool, step.args, 300) if step.args else f"{step.tool or 'subtask'}: {step.what}"
    return _joined(
        f"{branch}{step.n} {_mark(step.state)} ", label, f"{step.state}{then}  {step.link}".rstrip()
    )


def _joined(lead: str, label: str, tail: str, *, bold: bool = False) -> str:
    """One line: what leads, a label that is cut to the room there is, and what stands at the end."""
    room = max(columns(120) - width(click.unstyle(lead)) - width(tail) - 2, 16)
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
    rows_shown = fitted([head, *shown, ["total", "", "", *_figures(total)]], columns(), (0, 1, 2))
    lines = table(rows_shown, right=(3, 4, 5, 6, 7))
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
@click.argument("step", required=False, type=int)
@json_option("Print the changes of files and documents as an object.")
def diff(run: str, step: int | None, as_json: bool) -> None:
    """Show what a run, or one step of it, changed; also what a person has changed in its documents."""
    from kernel.store import FileStore
    from runtime.cli.changes import diff_of, edited, headline, told_before
    from runtime.undoing import acted, undone

    fractal = opened()
    documents = fractal.documents(run)
    changed = fractal.diffs(run, step)
    lines = [headline(each) for each in changed]
    texts = [text for each in changed if (text := diff_of(each))]
    if step is None and not acted(documents):
        lines = told_before(documents[0])
    store = FileStore(fractal.workspace.runs / fractal.find(run))
    texts += [text for document in documents if step is None and (text := edited(store, document.meta.id))]
    if as_json:
        put(json.dumps(_changes(documents, store, changed, step), indent=2, ensure_ascii=False))
        return
    if not lines and not texts:
        tell("no file was changed, as far as is known, and no document by hand")
    for entry in undone(documents[0]):
        of = "the run" if entry["step"] is None else f"step {entry['step']}"
        back = f"fractal undo {documents[0].meta.run} --redo"
        tell(f"{of} was undone at {local(entry['at'])}; `{back}` takes that back")
    for text in lines:
        click.echo(safe(text))
    for text in texts:
        click.echo()
        for each in safe(text).rstrip("\n").split("\n"):
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(each[:1])
            click.echo(click.style(each, fg=colour) if colour else each)


def _changes(
    documents: list[Document], store: FileStore, changed: Sequence[Change], step: int | None
) -> dict[str, Any]:
    """What a run or a step changed, what a person changed in its documents, and what was undone."""
    from dataclasses import asdict

    from runtime.cli.changes import edited
    from runtime.undoing import undone

    ids = [] if step is not None else [document.meta.id for document in documents]
    edits = {name: text for name in ids if (text := edited(store, name))}
    return {
        "files": [asdict(each) for each in changed],
        "documents": edits,
        "undone": [dict(each) for each in undone(documents[0])],
    }


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
