"""`fractal recall`, `remember`, `goal` and `wander`: what memory knows, told and asked."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import command, json_option, opened, put, tell
from runtime.cli.words import safe

if TYPE_CHECKING:
    from runtime.remembering.knowledge import Recalled

LARGEST = 20_000_000
"""Bytes of a text that is read to be remembered."""


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--explain", is_flag=True, help="Show how the score of each came about.")
@click.option(
    "--mode",
    type=click.Choice(["standard", "aggregated", "anchors"]),
    default="standard",
    help="aggregated: by what hangs together; anchors: by several wordings of the question.",
)
@click.option("--limit", type=click.IntRange(1, 100), default=8, show_default=True, metavar="N")
@json_option("Print a list of objects.")
def recall(query: tuple[str, ...], explain: bool, mode: str, limit: int, as_json: bool) -> None:
    """Ask memory what it knows of QUERY: facts that were told, results and failures of runs."""
    from runtime.remembering.knowledge import NOTHING, recall

    found = recall(opened(), " ".join(query), limit=limit, mode=mode)
    if as_json:
        put(json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False))
        return
    for each in found:
        for line in _lines(each, explain):
            click.echo(line)
    if not found:
        tell(NOTHING)


def _lines(each: Recalled, explain: bool) -> list[str]:
    lines = [safe(" ".join(each.text.split())), f"  {safe(each.whence)}"]
    if explain:
        told = sorted(each.parts.items(), key=lambda part: (-abs(part[1]), part[0]))
        parts = " ".join(f"{name} {value:+.2f}" for name, value in told)
        lines.append(f"  {each.kind} {each.id[:12]}, {each.rank:.3f} of what may answer = {parts}")
        lines.append(f"  like the question: {each.score:.2f}" + (f"; {safe(each.why)}" if each.why else ""))
    return lines


@click.command()
@click.argument("text", nargs=-1)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Remember each paragraph of a text file.",
)
@click.option("--who", default="person", metavar="NAME", help="Who said it; you, unless told.")
@click.option(
    "--at", default="", metavar="WHEN", help="When it was said or so: 2026-05-04, or 3d for 3 days ago."
)
@click.option("--name", "names", multiple=True, help="Whom or what it is about; may be repeated.")
@json_option("Print a list of objects.")
def remember(
    text: tuple[str, ...], path: Path | None, who: str, at: str, names: Sequence[str], as_json: bool
) -> None:
    """Remember TEXT, a fact in a sentence; `-` or no TEXT reads paragraphs from standard input.

    A secret of a known form is left out of what is kept.
    """
    from runtime.remembering.knowledge import remember, remember_all

    told: dict[str, Any] = {"who": who, "at": at, "names": names}
    if path and text:
        raise click.UsageError("give TEXT or --file, not both")
    if path or text in ((), ("-",)):
        kept = remember_all(opened(), _read(path), **told)
    else:
        kept = [remember(opened(), " ".join(text), **told)]
    if as_json:
        listed = [{"id": each.id, "text": each.text, "evidence": len(each.evidence)} for each in kept]
        put(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    for each in kept:
        click.echo(f"{each.id[:12]}  {safe(' '.join(each.text.split()))}")


def _read(path: Path | None) -> str:
    from kernel.errors import UsageError

    where = str(path) if path else "standard input"
    if path is None and sys.stdin.isatty():
        raise UsageError(f"say what is to be remembered: {command('remember', '…')}")
    try:
        raw = path.read_bytes() if path else sys.stdin.buffer.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{where}: cannot be read: {error.strerror}") from None
    if len(raw) > LARGEST:
        raise UsageError(
            f"{where}: more than {LARGEST:,} bytes; keep that in files, and tell what they are about"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 text (byte {error.start}); convert it first") from None


@click.command()
@click.argument("words", nargs=-1, metavar="[TEXT… | reached ID | list]")
@click.option("--priority", type=click.FloatRange(0, 1), default=0.5, show_default=True, metavar="P")
@click.option("--all", "past", is_flag=True, help="List those that are reached as well.")
@json_option("Print a list of objects.")
def goal(words: tuple[str, ...], priority: float, past: bool, as_json: bool) -> None:
    """Set a goal, a state that is wished for; say that one is reached; list them."""
    from runtime.remembering.knowledge import goal_by, goals, mind_of

    fractal = opened()
    if words and words != ("list",):
        if words[0] == "reached" and len(words) == 2:
            found = mind_of(fractal).reached(goal_by(fractal, words[1]).id)
            told = f"reached: {found.text}"
        else:
            found = mind_of(fractal).set_goal(" ".join(words), priority=priority)
            told = f"{found.id[:8]}  {found.text}"
        put(json.dumps([_goal(found)], indent=2, ensure_ascii=False)) if as_json else click.echo(safe(told))
        return
    listed = goals(fractal, past=past)
    if as_json:
        put(
            json.dumps(
                [{**_goal(each), "gap": round(gap, 4)} for each, gap in listed], indent=2, ensure_ascii=False
            )
        )
        return
    for each, gap in listed:
        done = f", reached {each.reached[:10]}" if each.reached else ""
        click.echo(
            f"{each.id[:8]}  {safe(each.text)}  ({1 - gap:.0%} near, priority {each.priority:g}{done})"
        )
    if not listed:
        tell(f"there is no goal; set one: {command('goal', '…')}")


def _goal(each: Any) -> dict[str, Any]:
    return {name: getattr(each, name) for name in ("id", "text", "priority", "created", "reached")}


@click.command()
@click.argument("about", nargs=-1)
@click.option("--steps", type=click.IntRange(1, 100), default=6, show_default=True, metavar="N")
@click.option(
    "--seed", type=int, metavar="N", help="The same seed goes the same way; another each time, else."
)
@json_option("Print an object: the seed and the steps.")
def wander(about: tuple[str, ...], steps: int, seed: int | None, as_json: bool) -> None:
    """Walk through what is known, to where there is something to gain; from near ABOUT or from anywhere."""
    from runtime.remembering.knowledge import walked, wander

    chosen = secrets.randbelow(10_000) if seed is None else seed
    way = wander(opened(), " ".join(about), steps=steps, seed=chosen)
    if as_json:
        told = [
            {
                "id": each.memory.id,
                "text": each.memory.text,
                "gain": round(each.gain, 4),
                "why": list(each.why),
            }
            for each in way
        ]
        put(json.dumps({"seed": chosen, "steps": told}, indent=2, ensure_ascii=False))
        return
    click.echo(safe(walked(way)))
    if way and seed is None:
        tell(f"the same again: {command('wander', *about, '--seed', str(chosen))}")
