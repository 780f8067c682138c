"""What the kernel itself finds out about an attempt: the folder before and after, and which criteria hold."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError, OperationFailed, explained
from kernel.operations import OperationContext
from kernel.process import supervise
from kernel.schemas import pattern_of, quick
from kernel.screening import cut, neutralise, redact
from kernel.trees import Moved

SEARCHED = 1_000_000
"""Characters of a text that a pattern is searched in."""
PATTERN = 1_000
"""Characters of the longest pattern."""
SEARCH_SECONDS = 5.0
"""A pattern that takes longer is given up: it runs in a process of its own, which can be stopped."""
TAIL = 500
"""Of a failing command's output, weighted to the tail. Source: prompts.md."""
_SEARCH = (
    "import json, re, sys; pattern, text = json.load(sys.stdin); "
    "hit = re.search(pattern, text, re.MULTILINE); print(json.dumps(hit and hit[0][:60]))"
)
QUICK = 4_000
"""Characters; a text this short is searched in this process, if the pattern has one choice at most."""
_PLAIN = re.compile(r"[^\\.^$*+?{}\[\]|()]+")
_NAMED = 5
_MARK = re.compile(r"\[(?:exit \d+|stopped after [^\]]*)\]")
"""What ends the result of a command that failed."""


@dataclass(frozen=True)
class Verdict:
    """Whether a criterion holds (None: not for code to decide), and what was seen."""

    passed: bool | None
    note: str


@dataclass(frozen=True)
class Since:
    """The folder against the start of the run: what differs, and which files were there, by path."""

    moved: Mapping[str, Moved]
    there: Callable[[], Collection[str]]
    unknown: str = ""  # why that cannot be told


async def check_criterion(
    criterion: Mapping[str, Any],
    context: OperationContext,
    result_of: Callable[[int], str | None],
    since: Since | None,
) -> Verdict:
    """Check {run}, {file, has?}, {step, has} or {same}; {judge} is for the reader of the evidence.

    `result_of` gives a step's result, None when it has none; `since` is what became of the folder, None when
    no step could change anything. A pattern is searched in the first `SEARCHED` characters, `^` and `$`
    meaning lines. A command runs read-only; without a working sandbox its verdict is None. A criterion that
    makes the check itself fail does not hold.
    """
    try:
        if "run" in criterion:
            return await _run(str(criterion["run"]), context)
        if "file" in criterion:
            return await _file(str(criterion["file"]), criterion.get("has"), context)
        if "step" in criterion:
            return await _step(criterion["step"], criterion.get("has"), result_of)
        if "same" in criterion:
            return _same(str(criterion["same"]), context, since)
    except Exception as error:
        return Verdict(False, explained(error))
    if "judge" in criterion:
        return Verdict(None, "yours to judge")
    return Verdict(False, f"none of run, file, step, same, judge: {describe(criterion)}")


def reason(result: str) -> str:
    """The line of a failed step's result that says most: a command's last words, else the first line."""
    lines = [line.strip() for line in result.splitlines() if line.strip()]
    marks = [line for line in lines[1:] if _MARK.fullmatch(line)]
    words = [line for line in lines if line not in marks]
    if not words:
        return " ".join(lines)
    return " ".join([words[-1], *marks]) if marks else words[0]


def describe(criterion: Mapping[str, Any]) -> str:
    """A criterion as a person reads it, in one line."""
    has = f" has /{criterion['has']}/" if criterion.get("has") else ""
    for kind in ("run", "file", "step", "same", "judge"):
        if kind in criterion:
            words = f"{kind} {criterion[kind]}{has if kind in ('file', 'step') else ''}"
            break
    else:
        words = json.dumps(dict(criterion), ensure_ascii=False, default=str)
    return cut(neutralise(" ".join(words.split())), 200, "")


async def _run(command: str, context: OperationContext) -> Verdict:
    try:
        with context.system(command) as system:
            ran = await context.run(command, system=system, timeout=context.timeout, read_only=True)
    except (ConfigurationError, OperationFailed) as error:
        return Verdict(None, f"could not be run: {error}")
    passed = ran.exit == 0 and not ran.timed_out
    ended = f"stopped after {context.timeout:g} s" if ran.timed_out else f"exit {ran.exit}"
    if ran.mode == "off":
        ended += ", without a sandbox"
    printed = redact(neutralise(ran.output), os.environ).strip()
    printed = cut(printed, TAIL // 2 if passed else TAIL, "")
    return Verdict(passed, f"{ended}: {printed}" if printed else ended)


async def _file(name: str, has: Any, context: OperationContext) -> Verdict:
    path = context.readable(name)
    try:
        if path.is_dir():
            return _folder(path, has)
        if not path.exists():
            return Verdict(False, "missing")
        if not path.is_file():
            return Verdict(False, "not an ordinary file")
        size = path.stat().st_size
        if not has:
            return Verdict(size > 0, f"{size} bytes" if size else "empty")
        with path.open(encoding="utf-8", errors="replace", newline="") as handle:
            text = handle.read(SEARCHED)
    except OSError as error:
        return Verdict(False, f"cannot be read: {error.strerror}")
    return await _matches(str(has), text, f"{size} bytes, ")


def _folder(path: Path, has: Any) -> Verdict:
    if has:
        return Verdict(False, "a folder, which has no text")
    filled = any(path.iterdir())
    return Verdict(filled, "a folder" if filled else "an empty folder")


async def _step(n: Any, has: Any, result_of: Callable[[int], str | None]) -> Verdict:
    result = result_of(int(n)) if str(n).isdecimal() else None
    if result is None:
        return Verdict(False, f"step {n} has no result")
    if not has:
        return Verdict(bool(result.strip()), f"{len(result)} characters")
    return await _matches(str(has), result, "")


async def _matches(pattern: str, text: str, seen: str) -> Verdict:
    try:
        found = await search(pattern, text[:SEARCHED])
    except OperationFailed as error:
        return Verdict(False, seen + str(error))
    if found is None:
        beyond = f" in the first {SEARCHED} characters" if len(text) >= SEARCHED else ""
        return Verdict(False, f"{seen}no match{beyond}")
    return Verdict(True, f"{seen}matched {redact(found, os.environ)!r}")


async def search(pattern: str, text: str) -> str | None:
    """The beginning of what the pattern matches in the text, None for no match.

    Raises `OperationFailed` for what is no regular expression, or takes longer than `SEARCH_SECONDS`.
    """
    if len(pattern) > PATTERN:
        raise OperationFailed(f"the pattern is longer than {PATTERN} characters")
    if _PLAIN.fullmatch(pattern):
        return pattern[:60] if pattern in text else None
    try:
        compiled = pattern_of(pattern, re.MULTILINE)
    except ValueError as error:
        raise OperationFailed(str(error)) from None
    if len(text) <= QUICK and quick(pattern):
        hit = compiled.search(text)
        return hit[0][:60] if hit else None
    ended = await supervise(
        [sys.executable, "-I", "-S", "-c", _SEARCH],
        folder=Path.cwd(),
        env={},
        stdin=json.dumps([pattern, text]),
        timeout=SEARCH_SECONDS,
        limit=10_000,
        bubblewrap=False,
    )
    if ended.timed_out:
        raise OperationFailed(f"{pattern!r} took longer than {SEARCH_SECONDS:g} s; use a simpler pattern")
    if ended.exit:
        raise OperationFailed(f"{pattern!r} could not be searched: {ended.output[-200:].strip()}")
    return json.loads(ended.output)


def _same(name: str, context: OperationContext, since: Since | None) -> Verdict:
    if since is None:
        return Verdict(True, "nothing in the plan could change it")
    if since.unknown:
        return Verdict(None, f"not known: {since.unknown}")
    path = context.shown(context.readable(name))

    def inside(paths: Collection[str]) -> list[str]:
        return [each for each in paths if path == "." or each == path or each.startswith(f"{path}/")]

    old = inside(since.there())
    if not old:
        return Verdict(False, "was not there when the run began, or is not looked at")
    if differing := inside(since.moved):
        more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
        return Verdict(False, f"changed: {', '.join(differing[:_NAMED])}{more}")
    return Verdict(True, f"{len(old)} file{'s' if len(old) > 1 else ''} unchanged")
