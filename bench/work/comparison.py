"""Plays the ten jobs with the same reader four ways, and counts calls, tokens and wasted replies.

A reply is wasted if it is refused, or its answer is held back."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.harness import Figures, markdown, tokenizer
from bench.real.comparison import site
from bench.work.jobs import JOBS, Call, Move, WorkJob
from bench.work.reader import Reader, turn
from kernel.asking.messages import prompt_tokens
from kernel.asking.prompt import NOT_YET
from kernel.asking.replies import validated
from kernel.asking.responder import Ask, Ladder
from kernel.asking.turn import TurnReply
from kernel.errors import Exit, ReplyError
from kernel.events import Event
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.text.json_reader import read_reply

GOALS = {"more_calls": 2, "tokens": 0.6, "wasted": 0.05}
"""Calls above the plain loop's, its share of tokens, and wasted calls. Source: work.md, "Measure"."""
WAYS = ("planned", "turns", "plain", "parallel")
"""`plain` has the shape of mini-swe-agent: one call a turn, and rules as long as its own. `parallel` is the
least that a loop costs which resends its history: several calls a turn, and short rules."""
MOST = 60
"""Calls after which a job is given up."""
Row = dict[str, Any]
_IDLE = Move()

# ---- a plain tool loop, in the style of mini-swe-agent ---------------------------------------------------

RULES = """You solve a task with tools, one turn at a time. The whole conversation is your memory.
In every turn reply with one JSON object: {"calls": [{"tool": "…", "args": {…}}]}, or {"done": "answer"},
or {"question": "what only the user can tell"}. The results of your calls come in the next message.

read(path): the text of a file
write(path, content): make or replace a file
edit(path, old, new): replace one occurrence of a text in a file
bash(command): run a shell command in the folder
fetch(url, part?): the text of a page, or its links

Rules:
- Look at the relevant files before you change anything. Run the tests, if there are any, before and after.
- Calls of one turn must not need each other's results. Arguments are whole: no placeholders, no templates.
- A failed call is a result. Read the message, and do something else. Never repeat the same failing call.
- Change only what the task asks for. Do not edit tests to make them pass.
- When everything that the task asks for is done and checked, reply with done. Say shortly what was done.
"""
LONGEST = 10_000
"""Characters of a result, as in mini-swe-agent."""
PREAMBLE = 705
"""Tokens of the rules that mini-swe-agent 2.4.6 ships (`mini_textbased.yaml`), by cl100k."""


def _carried_out(folder: Path, tool: str, args: Mapping[str, Any]) -> str:
    """One call of the plain loop; errors are results."""
    try:
        if tool == "read":
            return (folder / args["path"]).read_text()
        if tool == "write":
            (folder / args["path"]).write_text(args["content"])
            return f"wrote {args['path']}"
        if tool == "edit":
            path = folder / args["path"]
            if path.read_text().count(args["old"]) != 1:
                return "the text does not occur exactly once"
            path.write_text(path.read_text().replace(args["old"], args["new"]))
            return f"replaced 1 occurrence in {args['path']}"
        if tool == "fetch":
            return urllib.request.urlopen(args["url"], timeout=10).read().decode()
        ran = subprocess.run(
            args["command"], shell=True, cwd=folder, capture_output=True, text=True, timeout=60
        )
        return f"{ran.stdout}{ran.stderr}" + (f"\n[exit {ran.returncode}]" if ran.returncode else "")
    except (OSError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


def _plain(
    job: WorkJob, task: str, folder: Path, reader: Reader, count: Callable[[str], int], parallel: bool = False
) -> Row:
    history, tokens, calls, wasted, answer = f"Task: {task}\n", 0, 0, 0, ""
    left: list[Call] = []  # calls of a move that are still to be made, one a turn
    while calls < MOST:
        calls += 1
        tokens += (count(RULES) if parallel else PREAMBLE) + count(history)
        move = replace(_IDLE, calls=tuple(left)) if left else job.policy(history)
        text = reader.written(turn(move if parallel else replace(move, calls=move.calls[:1])))
        try:
            reply = validated(TurnReply, read_reply(text))
        except ReplyError as error:
            wasted += 1
            unread = text.replace('"', "'")  # it does not look like a call that was made
            history += f"\nassistant: {unread}\nThat was not a valid reply: {error}\n"
            continue
        history += f"\nassistant: {text}\n"
        if reply.done and not reply.calls:
            answer = reply.done.answer
            break
        left = [] if parallel else list(move.calls[1:])
        if reply.question:
            history += f"\nAnswer: {job.answer}\n"
        for call in reply.calls:
            result = _carried_out(folder, call.tool, call.args)
            history += f"\nResult of {call.tool}:\n{result[:LONGEST]}\n"
    return {"done": job.check(folder, answer), "calls": calls, "tokens": tokens, "wasted": wasted}


# ---- Fractal ---------------------------------------------------------------------------------------------


def _fractal(job: WorkJob, task: str, folder: Path, reader: Reader, count: Callable[[str], int]) -> Row:
    asks: list[Ask] = []

    def answer(ask: Ask) -> str:
        asks.append(ask)
        return reader(ask)

    events: list[Event] = []
    settings = {"fsync": False, "remember": False, "recall": False, "calls": MOST, "embedder": "lexical"}
    settings |= {"operations": {"fetch": {"allow_private": True}}}
    fractal = Fractal(folder, settings=settings, ladder=Ladder((Scripted(answer),)), on_event=events.append)
    result = asyncio.run(fractal.run(task, yes=True))
    while result.exit == Exit.WAITING and job.answer and len(asks) < MOST:
        fractal.tell(result.run, "answer", text=job.answer)
        result = asyncio.run(fractal.resume(result.run, yes=True))
    fractal.brain.close()
    refused = sum(event.kind == "ask_refused" for event in events)
    held = sum(note.key == NOT_YET for note in fractal.root_document(result.run).section(3).notes)
    return {
        "done": job.check(folder, result.output or ""),
        "calls": len(asks),
        "tokens": sum(prompt_tokens(ask, count) for ask in asks),
        "wasted": refused + held,
    }


def measure(slips: float = 0.2, seeds: int = 5, only: str = "") -> Figures:
    """Play each job in each way, with `seeds` different series of slips; averages over them."""
    count, name = tokenizer()
    rows: list[Row] = []
    for job in JOBS:
        if only and only != job.name:
            continue
        for way in WAYS:
            played = [_play(job, way, slips, seed, count) for seed in range(seeds)]
            figures = {key: fmean(row[key] for row in played) for key in played[0]}
            rows.append({"job": job.name, "way": way, **figures})
    return {"tokenizer": name, "slips": slips, "seeds": seeds, "rows": rows, **summary(rows)}


def _play(job: WorkJob, way: str, slips: float, seed: int, count: Callable[[str], int]) -> Row:
    with (
        tempfile.TemporaryDirectory(prefix="work-") as name,
        site(job.pages) as url,
    ):
        folder = Path(name)
        for path, text in job.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        task = job.task.replace("{site}", url)
        reader = Reader(job, task, planned=way == "planned", slips=slips, seed=seed)
        if way in ("plain", "parallel"):
            return _plain(job, task, folder, reader, count, way == "parallel")
        return _fractal(job, task, folder, reader, count)


def summary(rows: list[Row]) -> dict[str, Any]:
    """By way: jobs done, calls, tokens, and the share of wasted calls, over all jobs."""
    found: dict[str, Any] = {}
    for way in WAYS:
        of_way = [row for row in rows if row["way"] == way]
        calls = sum(row["calls"] for row in of_way)
        found[way] = {
            "done": round(fmean(row["done"] for row in of_way), 3),
            "calls": round(calls, 1),
            "tokens": round(sum(row["tokens"] for row in of_way)),
            "wasted": round(sum(row["wasted"] for row in of_way) / calls, 3),
        }
    return found


def table(figures: Figures) -> str:
    """The figures by job, and their sums."""
    by = {(row["job"], row["way"]): row for row in figures["rows"]}
    lines: list[list[Any]] = []
    for job in dict.fromkeys(row["job"] for row in figures["rows"]):
        cells = [by[job, way] for way in WAYS]
        shown = [f"{cell['done']:.0%} · {cell['calls']:.1f} · {cell['tokens']:,.0f}" for cell in cells]
        lines.append([job, *shown])
    sums = [figures[way] for way in WAYS]
    lines.append(["all", *(f"{each['done']:.0%} · {each['calls']} · {each['tokens']:,}" for each in sums)])
    lines.append(["wasted calls", *(f"{each['wasted']:.1%}" for each in sums)])
    return markdown(["job: done · calls · prompt tokens", *WAYS], lines)


def missed(figures: Figures) -> list[str]:
    """The goals that `turns` misses."""
    by = {(row["job"], row["way"]): row for row in figures["rows"]}
    found: list[str] = []
    for job in dict.fromkeys(row["job"] for row in figures["rows"]):
        turns, plain = by[job, "turns"], by[job, "plain"]
        if turns["done"] < plain["done"]:
            found.append(f"{job}: done {turns['done']:.0%}, the plain loop {plain['done']:.0%}")
        if turns["calls"] > plain["calls"] + GOALS["more_calls"]:
            found.append(f"{job}: {turns['calls']:.1f} calls, the plain loop {plain['calls']:.1f}")
    turns, plain = figures["turns"], figures["plain"]
    if turns["tokens"] > GOALS["tokens"] * plain["tokens"]:
        found.append(
            f"prompt tokens {turns['tokens'] / plain['tokens']:.2f} of the plain loop's > {GOALS['tokens']}"
        )
    if turns["wasted"] > GOALS["wasted"]:
        found.append(f"wasted calls {turns['wasted']:.1%} > {GOALS['wasted']:.0%}")
    return found
