"""`fractal ls`, `show`, `tree`, `cost`, `diff` and `prompt`: reads the documents of runs."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kernel import disk
from kernel.document.markdown import render
from kernel.document.model import Document
from kernel.document.redaction import Verbatim
from kernel.errors import DocumentError, UsageError
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal
from runtime.api.run_view import FIGURES, as_object, costs, loop_ids, plain, status_of, tree_of
from runtime.api.trajectory import trajectory_of
from runtime.cli.diffs import print_changes, unkept_lines
from runtime.cli.output import (
    MARKS,
    Columns,
    call,
    columns,
    cost_of,
    echo,
    elide,
    emit,
    line,
    local,
    notify,
    pad,
    phase_name,
    picked,
    print_json,
    print_line,
    print_table,
    put,
    put_document,
    safe,
    table,
    tokens,
    width,
)
from runtime.cli.session import (
    command,
    json_option,
    opened,
    require,
    run_argument,
    say_to_apply,
    step_number,
    step_of_newest,
)
from runtime.secrets.redaction import redact
from runtime.workspace.hand_edits import as_left
from runtime.workspace.prompts import kept_prompt, shown_messages
from runtime.workspace.runs import RunSummary
from runtime.workspace.undo import APPLY, acted, in_effect, undone
from runtime.workspace.worktrees import Worktree

NEWEST = 20
"""Runs that `ls` lists without `--all`."""
RENDERED = 300_000
"""Bytes up to which a document is rendered on a terminal."""


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help=f"List all runs, not only the newest {NEWEST}.")
@json_option("Print a list of objects.")
def ls(everything: bool) -> None:
    """List runs, newest first: status, time, loops, cost, task."""
    fractal = opened()
    ids = fractal.workspace.run_ids()
    runs = fractal.runs(ids if everything else ids[:NEWEST])
    summaries = [_summary(fractal, each) for each in runs]
    emit(summaries)
    if not runs:
        notify(f'no runs in {fractal.workspace.runs}; start one: fractal run "…"')
        return

    def coloured(each: Mapping[str, Any], text: str) -> str:
        status = each["status"]
        return text.replace(status, click.style(status, fg=MARKS.get(status, ("", None))[1]), 1)

    def status(each: Mapping[str, Any]) -> str:
        return each["status"] + (f", {each['to_apply']} to apply" if each["to_apply"] else "")

    shown: Columns = {"RUN": "run", "STATUS": status, "WHEN": lambda each: local(each["created"])}
    cost: Columns = {"COST": lambda each: cost_of(each["spent"]) if each["spent"] else ""}
    shown = {**shown, "LOOPS": "loops", **cost, "TASK": "task"}
    print_table(shown, summaries, right=(3, 4), cut=(5,), room=columns(120), style=coloured)
    if not everything and len(ids) > NEWEST:
        notify(f"… and {len(ids) - NEWEST} more; list all: fractal ls --all")


def _summary(fractal: Fractal, run: RunSummary) -> dict[str, Any]:
    return asdict(run) | {
        "status": status_of(fractal, run.run, run.status),
        "spent": dict(run.spent),
        "loops": len(loop_ids(fractal, run.run)),
    }


@click.command()
@run_argument("name")
@click.option("--raw", is_flag=True, help="Print the file unchanged, with all of META, on a terminal too.")
@click.option("--path", "only_path", is_flag=True, help="Print only the path of the document.")
@click.option("--atif", is_flag=True, help="Print the loop and those below it as an ATIF trajectory (JSON).")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the run to FILE, as one HTML page to send to somebody.",
)
@json_option("Print the document as an object: meta, and each section with its notes and steps.")
def show(name: str, raw: bool, only_path: bool, atif: bool, page: Path | None) -> None:
    """Show the root document of a run (default: the newest), or any document by id or path.

    In a pipe, the file is printed unchanged.
    """
    fractal = opened()
    asked = _asked(fractal, name)
    emit(lambda: as_object(fractal.document(name), asked))
    if page:
        _write_page(fractal, name, page)
        return
    path = fractal.path(name)
    if atif:
        print_json(trajectory_of(fractal.documents(name), path.stem))
        return
    if only_path:
        put(str(path))
        return
    if asked is not None:  # the document has it in short, with secrets and what looks like one hidden
        notify(Verbatim(f"it waits for approval of {asked}\n"), "magenta")
    data = path.read_bytes()
    if raw or not sys.stdout.isatty() or len(data) > RENDERED:
        put_document(data)
        return
    _render(safe(redact(data.decode("utf-8", "replace"))))


def _asked(fractal: Fractal, name: str) -> str | None:
    """What a document asks to approve, in full; None if nothing, or if it cannot be read."""
    with suppress(DocumentError):
        document = fractal.document(name)
        if (document.meta.waiting or {}).get("for") == "approval":
            return fractal.asked(document).text
    return None


def _write_page(fractal: Fractal, run: str, file: Path) -> None:
    for package in ("jinja2", "markdown_it"):
        require(package, package, "server")
    from runtime.server.page.export import as_file

    with disk.writing_state(file):
        disk.put(file, as_file(fractal, run).encode("utf-8", "replace"))
    notify(f"written to {file}")


_LINK = re.compile(r"\[([^\[\]]+)\]\(\1\)")


def _render(text: str) -> None:
    """Print a document on a terminal: META in three lines, the rest as rendered markdown."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.text import Text

    console = Console(highlight=False)
    _, head, body = text.split("---\n", 2)
    values = dict(each.split(": ", 1) for each in head.splitlines() if ": " in each)
    values = {key: value.strip('"') for key, value in values.items()}
    values |= {key: local(values[key]) for key in ("created", "updated") if key in values}
    for names in (("id", "type", "status", "phase"), ("created", "updated", "folder")):
        text_line = " · ".join(values[name] for name in names if values.get(name))
        console.print(Text(elide(text_line, console.width), "dim"))
    if number := re.search(r'"changes": ([1-9]\d*)', values.get("worktree", "")):
        console.print(Text(f"changed files to apply: {number[1]}", "yellow"))
    console.print(Text("all of META: fractal show --raw", "dim"))
    console.print(Markdown(_LINK.sub(r"\1", plain(body)), hyperlinks=False))


@click.command()
@run_argument()
@json_option("Print the loops as nested objects: id, status, task, spent, steps.")
def tree(run: str) -> None:
    """Show the loops and steps of a run (default: the newest), each with its status and file."""
    found = tree_of(opened(), run)
    emit(found.root)
    for text in _rows(found.root, "", ""):
        echo(text, styled=True)
    for stray in found.strays:
        print_line(f"not linked by any step: {stray}.md")


def _rows(loop: Mapping[str, Any], guide: str, under: str) -> Iterator[str]:
    """The lines of a loop and its steps; `guide` begins the first of them, `under` the others."""
    document = f"{loop['id']}.md"
    if "error" in loop:
        yield f"{guide}{_mark('broken')} {document}: {line(loop['error'])}"
        return
    status = "unverified" if loop["status"] == "complete" and "unverified" in loop else loop["status"]
    spent = f"  {cost_of(loop['spent'])}" if loop["spent"] else ""
    kind = "" if loop["type"] == "task" else f"{loop['type']}: "
    tail = f"{status}{spent}  {document}"
    yield _join(f"{guide}{_mark(status)} ", kind + loop["task"], tail, bold=not guide)
    for at, step in enumerate(loop["steps"], 1):
        last = at == len(loop["steps"])
        branch, below = (f"{under}└─ ", f"{under}   ") if last else (f"{under}├─ ", f"{under}│  ")
        if "share" in step:  # a loop; an operation's document is named by its step
            yield from _rows(step["loop"], f"{branch}{step['n']} ", below)
            continue
        args, title = step.get("args"), f"{step.get('tool', 'subtask')}: {step.get('what', '')}"
        label = call(step.get("tool", ""), args, 300) if args else title
        tail = f"{step['state']}{', undone' if 'undone' in step else ''}  {step.get('document', '')}"
        yield _join(f"{branch}{step['n']} {_mark(step['state'])} ", label, tail.rstrip())


def _join(lead: str, label: str, tail: str, *, bold: bool = False) -> str:
    """One line: `lead`, a label that is cut to the room there is, and `tail`."""
    room = max(columns(120) - width(click.unstyle(lead)) - width(tail) - 2, 16)
    label = elide(label, room)
    return f"{lead}{click.style(pad(label, room), bold=bold)}  {click.style(tail, dim=True)}"


def _mark(status: str) -> str:
    sign, colour = MARKS.get(status, ("·", "white"))
    return click.style(sign, fg=colour)


@click.command()
@run_argument()
@json_option("Print the rows and totals as an object.")
def cost(run: str) -> None:
    """Show the cost of a run (default: the newest) by loop, phase and responder.

    The prompt's tokens are fresh, or the provider had them in its cache. Instruction tokens are part of them.
    """
    documents = opened().documents(run)
    rows = list(costs(documents))
    charged = dict(documents[0].meta.spent)
    total = {name: round(sum(row[name] or 0 for row in rows), 9) for name in FIGURES}
    unpriced = sum(row["usd"] is None for row in rows)
    emit({"rows": rows, "total": total, "charged": charged})
    shown: Columns = {"LOOP": "loop", "PHASE": _phase, "RESPONDER": "rung"}
    heads: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "CALLS": lambda row: row["calls"],
        "PROMPT": lambda row: row["prompt_tokens"],
        "FRESH": lambda row: row["prompt_tokens"] - row["cached_tokens"],
        "CACHED": lambda row: row["cached_tokens"],
        "INSTR": lambda row: row["instruction_tokens"],
        "REPLY": lambda row: row["completion_tokens"],
    }
    if not total["cached_tokens"]:  # then all are fresh
        del heads["FRESH"], heads["CACHED"]
    figures: Columns = {head: lambda row, of=of: f"{int(of(row)):,}" for head, of in heads.items()}
    shown = {
        **shown,
        **figures,
        "USD": lambda row: cost_of({**row, "unpriced": row.get("unpriced") or row["usd"] is None}),
    }
    end = {"loop": "total", "phase": "", "rung": "", "attempt": 1, **total, "unpriced": unpriced}

    def bold(row: Mapping[str, Any], text: str) -> str:
        return click.style(text, bold=True) if row is end else text

    print_table(shown, [*_by_phase(rows), end], right=tuple(range(3, len(shown))), cut=(0, 1, 2), style=bold)


def _by_phase(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, those of one loop, attempt, phase and responder added up: each turn has a row of its own."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(
            tuple(row[name] for name in ("loop", "attempt", "phase", "rung")),
            {**row, **dict.fromkeys(FIGURES, 0), "unpriced": 0},
        )
        for name in FIGURES:
            known[name] += row[name] or 0
        known["unpriced"] += row.get("unpriced", 0) or row["usd"] is None
    return list(found.values())


def _phase(row: Mapping[str, Any]) -> str:
    return phase_name(row["phase"]) + (f" ({row['attempt']})" if row["attempt"] > 1 else "")


@click.command()
@run_argument()
@click.argument("step", required=False)
@json_option("Print the changes of files and documents as an object.")
def diff(run: str, step: str | None) -> None:
    """Show what a run (default: the newest) or one of its steps changed, and your edits of documents."""
    run, step = step_of_newest(run, step)
    number = step_number(step)
    fractal = opened()
    documents = fractal.documents(run)
    root = documents[0]
    changed = fractal.diffs(run, number)
    store = FileStore(fractal.workspace.runs / root.meta.run)
    names = [each.meta.id for each in documents] if step is None else []
    edits = {name: text for name in names if (text := _edited(store, name))}
    unkept = fractal.unkept(run, number)
    emit({"files": changed, "documents": edits, "undone": undone(root), "unkept": unkept})
    noted: list[str] = []
    if step is None and not changed and not acted(documents):  # of an older version, or without snapshots
        noted = [text for key in ("changes", "diff") if (text := root.text(4, key)).strip()]
    if not changed and not noted and not edits and not unkept:
        notify("no known changes of files, and no edits of documents")
    for entry in undone(root):
        subject = {None: "the run", APPLY: "applying"}.get(entry["step"], f"step {entry['step']}")
        redo = command("undo", root.meta.run, "--redo")
        notify(f"{subject} was undone at {local(entry['at'])}; revert that with: {redo}")
    for text in noted:
        print_line(text)
    print_changes(changed, [*edits.values()])
    for text in unkept_lines(unkept):
        print_line(text)
    _say_to_apply(root)


def _say_to_apply(root: Document) -> None:
    """Say what became of the changes of a run in a worktree."""
    made, run = Worktree.of_run(root), root.meta.run
    for entry in in_effect(root) if made else ():
        notify(f"applied at {local(entry['at'])}; to revert that: {command('undo', run)}")
    if made and made.discarded:
        notify("the worktree was discarded")
    elif made and made.changes:
        say_to_apply(run, made.changes)


def _edited(store: FileStore, loop_id: str) -> str:
    """A person's edits of a document since the run left it, as a unified diff; "" for none."""
    current = store.peek(loop_id)
    saved = as_left(store, current)
    before, after = (redact(render(each, saved.meta.rev).decode("utf-8")) for each in (saved, current))
    if before == after:  # but for secrets, which only the run's own copy has
        return ""
    names = f"{loop_id}.md (as the run left it)", f"{loop_id}.md"
    return "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))


@click.command()
@run_argument("doc")
@click.option("--step", type=int, default=0, help="The step to fill in, in the phase Do.")
@click.option("--call", "number", type=int, help="Print what this call sent; 1: the first, -1: the last.")
@json_option("Print the messages and the tokens of each part as an object.")
def prompt(doc: str, step: int, number: int | None) -> None:
    """Print the prompt of the next call for a document (default: the newest run's root), or of a past one.

    The tokens of each part go to standard error.
    """
    if number is not None:
        _print_sent(doc, number)
        return
    phase, built = opened().prompt(doc, step)
    parts = [{"part": name, "tokens": count} for name, count in built.parts]
    value = {"phase": phase, **picked(built, "system", "user", "messages"), "parts": parts}
    emit(value | {"instruction_tokens": built.instruction_tokens})
    put("\n\n".join(shown_messages(built)))
    total = sum(count for _, count in built.parts)
    rows = [[name, str(count)] for name, count in built.parts]
    rows += [["instructions", str(built.instruction_tokens)], ["total", f"{total} ({tokens(total)})"]]
    notify(f"\n{phase_name(phase)}, tokens by part:\n" + "\n".join(table(rows)))


def _print_sent(name: str, number: int) -> None:
    """Print what a call of a document sent, and which one it was to standard error."""
    from runtime.telemetry.tracing import calls

    fractal = opened()
    folder = fractal.workspace.runs / fractal.find(name)
    made = list(calls(folder / "calls.jsonl"))
    loop = name if any(each.loop == name for each in made) else fractal.path(name).stem  # or of oversight
    own = [each for each in made if each.loop == loop]
    phases = [phase_name(each.phase) for each in own]
    place = number - 1 if number > 0 else len(own) + number
    if not number or place not in range(len(own)):
        listed = ", ".join(f"{n} {phase}" for n, phase in enumerate(phases, 1)) or "none"
        raise UsageError(f"{loop} has no call {number}; its calls: {listed}")
    call = own[place]
    text = kept_prompt(folder, call.key)
    if not text:
        raise UsageError(f"call {place + 1} of {loop}: its prompt is not kept; see the setting keep_prompts")
    emit({**picked(call, "key", "phase", "attempt", "rung"), "text": text})
    put(text)
    notify(f"\ncall {place + 1} of {len(own)}: {phases[place]}, attempt {call.attempt}, {call.rung}")
