"""`fractal recall`, `remember`, `goal`, `wander`, `forget`, `context` and `dream`: what memory knows.

What only some of them need is imported by these: `recall` and `remember` have to be quick.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernel.errors import UsageError
from runtime.api import knowledge
from runtime.cli.output import confirm, count, emit, line, notify, notify_changes, picked, print_line, put
from runtime.cli.session import (
    Session,
    command,
    decider,
    json_option,
    opened,
    opened_memory,
    text_of,
    until_signal,
)

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal
    from runtime.memory.dream.stages import StageRecord
    from runtime.memory.facts.records import Goal
    from runtime.memory.forgetting.forgetting import ForgettingResult, Preview
    from runtime.memory.forgetting.request import Request
    from runtime.nervous.staging import Staged
    from runtime.reflexes.dreaming import Order

LARGEST = 20_000_000
"""Bytes of the largest text that `remember` reads."""
SHOWN = 20
"""Things that a preview of `forget` names."""
GOAL = ("id", "text", "priority", "created", "reached")
"""What `--json` shows of a goal."""


@click.command()
@click.argument("query", nargs=-1)
@click.option("--staged", is_flag=True, help="Show what was read and is not yet known; without QUERY, all.")
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option(
    "--mode",
    type=click.Choice(["standard", "aggregated", "anchors"]),
    default="standard",
    help="aggregated: by groups of related facts; anchors: by several wordings of the question.",
)
@click.option("--limit", type=click.IntRange(1, 100), default=8, show_default=True, metavar="N")
@json_option("Print a list of objects.")
def recall(query: tuple[str, ...], staged: bool, explain: bool, mode: str, limit: int) -> None:
    """Answer QUERY from memory: what holds now, or at the time that it names, with its date and source.

    If nothing answers a question, the nearest two are shown as "perhaps".
    """
    if staged:
        staging = opened().nerves.staging
        read = staging.near(" ".join(query), limit) if query else staging.waiting()
        _print_staged(read)
        if not read:
            notify("nothing about that is staged" if query else "nothing is staged")
        return
    hits = knowledge.recall(opened_memory(), " ".join(query), limit=limit, mode=mode)
    emit(hits)
    if not knowledge.known(hits):
        notify(knowledge.unknown(hits))
    for hit in hits:
        print_line(f"{knowledge.PERHAPS if hit.perhaps else ''}{line(hit.text)}\n  {hit.provenance}")
        if explain:
            parts = sorted(hit.parts.items(), key=lambda part: (-abs(part[1]), part[0]))
            sums = " ".join(f"{name} {value:+.2f}" for name, value in parts)
            reason = f"; {hit.why}" if hit.why else ""
            print_line(f"  {hit.kind} {hit.id[:12]}, rank {hit.rank:.3f} from {sums}")
            print_line(f"  similarity to the question: {hit.score:.2f}; sure: {hit.sure:.0%}{reason}")


def _print_staged(read: Sequence[Staged]) -> None:
    emit([each.model_dump(mode="json", exclude={"vectors"}) for each in read])
    for each in read:
        print_line(f"{line(each.line)}{', known' if each.approved else ''}")
    if staged := [each.id[:8] for each in read if not each.approved]:
        notify(f"let agents know it: {command('remember', '--approve', staged[0])}", "bright_black")


@click.command()
@click.argument("text", nargs=-1)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Remember each paragraph of a text file.",
)
@click.option("--who", default="person", metavar="NAME", help="Who said it (default: you).")
@click.option("--at", default="", metavar="WHEN", help="When it was said: 2026-05-04, or 3d for 3 days ago.")
@click.option("--name", "names", multiple=True, help="Whom or what it is about; may be repeated.")
@click.option("--staged", is_flag=True, help="It was only read: hide it from agents until it is approved.")
@click.option(
    "--source", default="", metavar="WHERE", help="Where it was read (default: the file); with --staged."
)
@click.option("--approve", "ids", multiple=True, metavar="ID", help="Let agents know what was staged.")
@json_option("Print a list of objects.")
def remember(
    text: tuple[str, ...],
    path: Path | None,
    who: str,
    at: str,
    names: Sequence[str],
    staged: bool,
    source: str,
    ids: Sequence[str],
) -> None:
    """Remember TEXT, a fact in one sentence; `-` or no TEXT reads paragraphs from standard input.

    Secrets of a known form are removed. What is --staged is refused if it has one.
    """
    if source and not staged:
        raise click.UsageError("--source needs --staged")
    if staged and (who != "person" or at or names or ids):
        raise click.UsageError(
            "--staged goes with TEXT, --file and --source, not with --who, --at, --name or --approve"
        )
    if ids and (text or path):
        raise click.UsageError("give --approve or something to remember, not both")
    if path and text:
        raise click.UsageError("give TEXT or --file, not both")
    if ids:
        staging = opened().nerves.staging
        _print_staged([staging.approve(id, decider()) for id in ids])
        return
    many = bool(path) or text in ((), ("-",))
    if many and path is None and sys.stdin.isatty():
        raise UsageError(f"say what to remember: {command('remember', '…')}")
    words = text_of(path, LARGEST) if many else " ".join(text)
    if staged:
        where = source or (f"file:{path.name}" if path else "")
        _print_staged(opened().nerves.staging.stage(knowledge.paragraphs(words), where, decider()))
        return
    memory, fields = opened_memory(), {"who": who, "at": at, "names": names}
    stored = (
        knowledge.remember_all(memory, words, **fields)
        if many
        else [knowledge.remember(memory, words, **fields)]
    )
    emit([{"id": each.id, "text": each.text, "evidence": len(each.evidence)} for each in stored])
    for each in stored:
        print_line(f"{each.id[:12]}  {line(each.text)}")


@click.command()
@click.argument("words", nargs=-1, metavar="[TEXT… | reached ID | list]")
@click.option("--priority", type=click.FloatRange(0, 1), default=0.5, show_default=True, metavar="P")
@click.option("--all", "past", is_flag=True, help="List reached goals too.")
@json_option("Print a list of objects.")
def goal(words: tuple[str, ...], priority: float, past: bool) -> None:
    """Set a goal (a desired state), mark one as reached, or list them."""
    fractal = opened()
    if not words or words == ("list",):
        _list_goals(knowledge.goals(fractal, past=past))
        return
    if words[0] == "reached" and len(words) == 2:
        changed = knowledge.mind_of(fractal).reached(knowledge.goal_by(fractal, words[1]).id)
        text = f"reached: {changed.text}"
    else:
        changed = knowledge.mind_of(fractal).set_goal(" ".join(words), priority=priority)
        text = f"{changed.id[:8]}  {changed.text}"
    emit([picked(changed, *GOAL)])
    print_line(text)


def _list_goals(listed: Sequence[tuple[Goal, float | None]]) -> None:
    emit([{**picked(each, *GOAL), "gap": None if gap is None else round(gap, 4)} for each, gap in listed])
    for each, gap in listed:
        reached = f", reached {each.reached[:10]}" if each.reached else ""
        near = knowledge.nearness(gap)
        print_line(f"{each.id[:8]}  {each.text}  ({near}, priority {each.priority:g}{reached})")
    if not listed:
        notify(f"no goals; set one: {command('goal', '…')}")


@click.command()
@click.argument("about", nargs=-1)
@click.option("--steps", type=click.IntRange(1, 100), default=6, show_default=True, metavar="N")
@click.option("--seed", type=int, metavar="N", help="Repeat the walk with this seed (default: random).")
@json_option("Print an object: the seed and the steps.")
def wander(about: tuple[str, ...], steps: int, seed: int | None) -> None:
    """Walk through what is known towards where something can be learned, starting near ABOUT or anywhere."""
    chosen = secrets.randbelow(10_000) if seed is None else seed
    walk = knowledge.wander(opened(), " ".join(about), steps=steps, seed=chosen)
    steps_taken = [
        picked(each.memory, "id", "text") | {"gain": round(each.gain, 4), "why": each.why} for each in walk
    ]
    emit({"seed": chosen, "steps": steps_taken})
    print_line(knowledge.walk_lines(walk, " ".join(about)))
    if walk and seed is None:
        notify(f"to repeat: {command('wander', *about, '--seed', str(chosen))}")


_ID = re.compile(r"[0-9a-f]{6,64}|(?:system|tool)-[a-z0-9-]+(?:\.\d+)*")
_KINDS = {kind: (kind, f"{kind}s") for kind in ("observation", "goal", "experience", "decision", "edge")} | {
    "memory": ("memory", "memories"),
    "neuron-tree": ("solved task", "solved tasks"),
    "method": ("method", "methods"),
    "staged": ("staged line", "staged lines"),
}
"""The kinds of records that `forget` names, in singular and plural."""
BUILT = ("admitted", "adopted")
"""The kinds of entries of the journal for what a run built and the system has since."""


@click.command()
@click.argument("words", nargs=-1, metavar="[WORDS… | ID]")
@click.option("--run", metavar="RUN", help="Forget all that a run left in memory.")
@click.option("--model", metavar="NAME", help="Forget what a model made, as far as its maker is known.")
@click.option("--before", metavar="DATE", help="Forget all that is older: 2026-11-20, or 30d for 30 days.")
@click.option("--documents", is_flag=True, help="Also remove documents of runs that contain it.")
@click.option("-y", "--yes", is_flag=True, help="Forget; without this, only show what would be forgotten.")
@json_option("Print an object: what is forgotten, what is reworded, what stays.")
def forget(
    words: tuple[str, ...],
    run: str | None,
    model: str | None,
    before: str | None,
    documents: bool,
    yes: bool,
) -> int:
    """Remove something from memory for good, including archives of dreams and free pages of the store.

    WORDS match everything that contains all of them (in quotes: the exact text); an ID matches one thing and
    its evidence. A memory with other evidence is reworded from that. Documents of runs stay unless
    --documents is given. With --model, the tasks that the model solved, what was learned from them and what
    its runs said are forgotten. Tools that it built stay, and are named.
    """
    from runtime.memory.forgetting.forgetting import Forgetting
    from runtime.workspace import undo as snapshots

    fractal = opened()
    request = _request(fractal, " ".join(words), run, before, model or "")
    if not (fractal.memory.there or knowledge.waiting(fractal) or documents):
        notify("nothing is remembered here yet")
        return 0
    forgetting = Forgetting(fractal.brain, fractal.workspace.state)
    if not yes:
        preview = forgetting.look(request)
        emit(lambda: _preview(fractal, preview))
        _print_preview(preview, documents)
        _print_built(fractal, preview)
        if preview.nothing and not (documents and preview.runs):
            return 0
        if not sys.stdin.isatty() or not confirm("Forget it?"):
            notify("nothing was changed; to forget it, add --yes")
            return 0
    result = forgetting.do(request, with_documents=documents)
    if result.removed:
        snapshots.forget(fractal.workspace)  # what files were before and after these runs
    code = 1 if result.hindered or result.at_work else 0
    emit(_preview(fractal, result.preview) | picked(result, "removed", "left", "hindered"), code)
    _print_forgotten(result)
    if yes:
        _print_built(fractal, result.preview)
    return code


def _built(fractal: Fractal, preview: Preview) -> dict[str, str]:
    """What the runs of a forgotten model built, which stays: the unit of the system, and the run."""
    runs = preview.affected.runs if preview.affected.request.model else {}
    entries = fractal.workshop.journal.entries() if runs else ()
    return {entry.unit: entry.run for entry in entries if entry.run in runs and entry.kind in BUILT}


def _print_built(fractal: Fractal, preview: Preview) -> None:
    for unit, run in _built(fractal, preview).items():
        retire = command("tools", "retire", Path(unit).stem)
        print_line(f"stays: {unit}, built by run {run}; to retire it: {retire}")


def _request(fractal: Fractal, words: str, run: str | None, before: str | None, model: str) -> Request:
    from runtime.api.spans import moment
    from runtime.memory.forgetting.request import MATCHED_KINDS, Request

    run_id = run or ""
    if run:
        matches = [each for each in fractal.workspace.run_ids() if each.startswith(run)]
        run_id = matches[0] if len(matches) == 1 else run
    when = moment(before, fractal.memory.clock()) if before else ""
    if _ID.fullmatch(words) and not (run_id or when or model) and fractal.memory.there:
        shelf = fractal.brain.shelf
        kinds = [kind for kind in MATCHED_KINDS if kind in shelf.kinds()]
        if any(row.id.startswith(words) for kind in kinds for row in shelf.rows(kind)):
            return Request(id=words)
    return Request(words, run=run_id, before=when, model=model)


def _entries(preview: Preview) -> list[tuple[str, str, str]]:
    """Kind, id and text of each record that is forgotten."""
    return [(kind, id, text) for (kind, id), text in preview.affected.removed.items() if kind in _KINDS]


def _preview(fractal: Fractal, preview: Preview) -> dict[str, Any]:
    reworded = preview.reworded.items()
    return {
        "forgets": [{"kind": kind, "id": id, "text": text} for kind, id, text in _entries(preview)],
        "rewords": [{"id": id, "before": before, "after": after} for id, (before, after) in reworded],
        "files": [*preview.files, *preview.strays],
        **picked(preview, "archived", "runs", "elsewhere", "spaces", "unsearched"),
        "built": _built(fractal, preview),
    }


def _print_preview(preview: Preview, documents: bool) -> None:
    entries = _entries(preview)
    for kind, id, text in entries[:SHOWN]:
        print_line(f"- {kind} {id[:12]}: {line(text)[:160]}")
    if len(entries) > SHOWN:
        print_line(f"  and {len(entries) - SHOWN} more")
    for id, (before, after) in list(preview.reworded.items())[:SHOWN]:
        print_line(f"~ memory {id[:12]}: {before[:120]} → {after[:120]}")
    for path in (*preview.files, *preview.strays):
        print_line(f"- file {path.name}")
    if preview.archived:
        print_line(f"- {count(preview.archived, 'archived line')} of dreams; no dream restores them")
    if preview.nothing:
        notify("memory has nothing that matches")
    if documents and preview.runs:
        print_line(f"- {_documents_of(preview.runs)}")
    _print_rest(preview, () if documents else preview.runs)


def _documents_of(runs: Sequence[str]) -> str:
    names = ", ".join(runs[:10]) + (" …" if len(runs) > 10 else "")
    return f"the documents of {'run' if len(runs) == 1 else 'runs'} {names}"


def _print_rest(preview: Preview, runs: Sequence[str]) -> None:
    """Print what stays: the documents of `runs`, other files, other spaces; and what was not searched."""
    if runs:
        print_line(f"stays: {_documents_of(runs)} (--documents removes them)")
    for path in preview.elsewhere[:10]:
        print_line(f"stays: {path}, which is not part of memory; check it yourself")
    for name in preview.spaces:
        print_line(f"stays: memories of the space {name}; to forget them there, set FRACTAL_SPACE={name}")
    for path in preview.unsearched[:10]:
        print_line(f"not searched: {path}, which may contain it")
    print_line("not searched: your own files, backups and copies, and what models and servers were sent")


def _print_forgotten(result: ForgettingResult) -> None:
    preview = result.preview
    counted = [count(n, *_KINDS[kind]) for kind, n in preview.counts.items() if kind in _KINDS]
    more = {
        f"{count(len(preview.reworded), 'memory', 'memories')} reworded": preview.reworded,
        count(len(preview.files) + len(preview.strays), "file"): [*preview.files, *preview.strays],
        count(preview.archived, "archived line"): preview.archived,
        f"the documents of {count(len(result.removed), 'run')}": result.removed,
    }
    counted += [text for text, found in more.items() if found]
    print_line("forgotten: " + (", ".join(counted) or "nothing; memory had nothing that matches"))
    _print_rest(preview, result.left)
    for run in result.at_work:
        notify(f"run {run} is running, so its documents stay; cancel it: {command('cancel', run)}", "yellow")
    if result.hindered:
        notify(result.hindered, "yellow")


@click.command()
@click.argument("task", nargs=-1, required=True)
@click.option(
    "--room", type=click.IntRange(min=0), metavar="N", help="Tokens (default: half of the top level's)."
)
@json_option("Print an object: each part with its share, room, lines and their sources.")
def context(task: tuple[str, ...], room: int | None) -> None:
    """Show what memory would add to the prompt for TASK: each line, its source, and why.

    Of the room, 40 % is for facts and files that the task needs, 25 % for learned patterns (at most 500
    tokens), 20 % for similar solved tasks, 15 % for what others do now. What a part leaves goes to the next.
    """
    from runtime.memory.context.context import NAMES, Context, room_for

    fractal = opened()
    level = fractal.config.bounds().context(0)
    budget = room_for(level, 0) if room is None else room
    memory = fractal.memory
    words = " ".join(task)
    selected = memory.context(words, budget, fractal.workspace.folder) if memory.taught else Context(budget)
    emit({"task": words, "level": level, **selected.as_dict()})
    if not selected.notes():
        notify("memory has nothing for that task; a run would only see the folder")
        return
    print_line(f"{selected.tokens} of {selected.room} tokens, in a level of {level}")
    for part in selected.parts:
        used = f"{part.tokens} of {part.room} tokens" if part.shown else "nothing"
        print_line(f"\n{NAMES[part.name]}: {used} ({part.share:.0%})")
        for each, text in part.shown:
            print_line(text)
            if each.why:
                print_line(f"    why: {each.why}")
        if part.left:
            print_line(f"  ({len(part.left)} more did not fit)")


@click.command()
@click.argument("action", required=False, type=click.Choice(["undo"]))
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice(["a", "p", "b"]),
    help="Only new events (a), procedures (p), or knowledge as a whole (b).",
)
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--since", metavar="WHEN", help="Only what is newer: 2026-11-20, or 3d for 3 days ago.")
@click.option("--every", metavar="SPAN", help="Keep running; dream every SPAN (5m) while no run is active.")
@click.option("--without", multiple=True, metavar="STAGE", help="Skip a stage; may be repeated.")
@json_option("Print an object: the dream, and what each stage did.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def dream(
    action: str | None,
    phases: tuple[str, ...],
    dry_run: bool,
    since: str | None,
    every: str | None,
    without: tuple[str, ...],
    quiet: bool,
) -> int:
    """Consolidate memory in a run of its own, one step per stage; what changes is archived first.

    `fractal dream undo` reverts the last dream; what was told, used or judged since stays.
    """
    from runtime.api import dreaming
    from runtime.api.spans import moment
    from runtime.reflexes.dreaming import Order

    if action:
        if phases or dry_run or since or every or without:
            raise click.UsageError("undo reverts the last dream; its only option is --json")
        return _undo_dream()
    if dry_run and every:
        raise click.UsageError("give --dry-run or --every, not both")
    fractal = opened()
    when = moment(since, fractal.memory.clock()) if since else ""
    order = Order(phases, when, without)
    if dry_run:
        rehearsed = dreaming.rehearse(fractal, order)
        return _print_rehearsal({each.stage.name: each.done for each in rehearsed})
    return _dream_every(order, every, quiet) if every else _dream_once(order, quiet)


def _dream_once(order: Order, quiet: bool) -> int:
    from runtime.api import dreaming

    session = Session(quiet=quiet, events=False)
    fractal = session.open()
    result = session.drive(dreaming.dream(fractal, order))
    values = {"dream": result.run, "status": result.status}
    emit(lambda: values | {"stages": _stages(dreaming.done(fractal, result.id))}, int(result.exit))
    return session.conclude(result)


def _stages(stages: Mapping[str, StageRecord]) -> dict[str, Any]:
    return {name: each.model_dump(mode="json") for name, each in stages.items()}


def _print_rehearsal(stages: Mapping[str, StageRecord]) -> int:
    from runtime.api import dreaming

    emit({"dry_run": True, "stages": _stages(stages)})
    for name, stage in stages.items():
        put(f"{name}: {dreaming.shown(stage)}")
    notify(f"nothing was changed; to do it: {command('dream')}")
    return 0


def _undo_dream() -> int:
    from runtime.api import dreaming

    undone = dreaming.undo(opened())
    emit(picked(undone, "dream", "rows", "files", "left"))
    put(f"{undone.dream}: restored {count(undone.rows, 'row')} and {count(undone.files, 'file')}")
    for name in undone.left:
        notify(f"not restored because it has changed since: {name}", "yellow")
    return 0


def _dream_every(order: Order, every: str, quiet: bool) -> int:
    """Dream again and again until a signal; an unfinished dream is resumed the next time."""
    import asyncio

    from runtime.api.scheduling import Scheduler
    from runtime.api.spans import seconds

    session = Session(quiet=True)
    fractal = session.open()
    say = notify_changes(quiet)
    scheduler = Scheduler(fractal, order, seconds(every), say)
    say(f"dreaming every {every} while no run is active; stop with Ctrl-C")
    asyncio.run(until_signal(scheduler.run()))
    say(count(len(scheduler.dreams), "dream"))
    return 0
