"""Decides one criterion in the folder: as it is, and as it was at the start of the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernel import FractalError
from kernel.document.escaping import to_json
from kernel.errors import ConfigurationError, OperationFailed, explained
from kernel.loop.hooks import FolderChanges
from runtime.sandbox.context import OperationContext
from runtime.secrets.redaction import redact
from runtime.text.expressions import neutral
from runtime.text.outcomes import outcome
from runtime.text.searching import search
from runtime.text.terminal import neutralise

Check = Callable[[Mapping[str, Any], Path, FolderChanges | None], tuple[bool | None, str]]
"""Decides a criterion `check` in the folder: whether it holds (None: not known), and what was found."""
SEARCHED = 1_000_000
"""Characters of a text that are searched for a pattern."""
_NAMED = 5


class CriterionResult(NamedTuple):
    """Whether a criterion holds (None: code cannot decide), and what was found."""

    passed: bool | None
    note: str


def criterion_fault(criterion: Mapping[str, Any], last: int, coded: bool, checks: Collection[str]) -> str:
    """What is wrong with a criterion of a plan with `last` steps; "" if nothing is.

    `checks` are the names that a criterion `check` may have; `coded`: code states it.
    """
    if criterion.get("check") in checks:
        return ""
    kinds = [kind for kind in ("run", "file", "step", "same", "judge") if kind in criterion]
    if len(kinds) != 1:
        return f"{to_json(dict(criterion))[:80]} is none of run, file, step, same, judge"
    value = criterion[kinds[0]]
    known = {kinds[0], "has"} if kinds[0] in ("file", "step") else {kinds[0]}
    if strange := sorted(map(str, criterion.keys() - known)):
        return f"{kinds[0]} has no {strange[0]!r}; it is {{{', '.join(sorted(known, reverse=True))}}}"
    if kinds[0] == "step":
        if not isinstance(value, int) or not 1 <= value <= last:
            return f"there is no step {value!r}"
        if not criterion.get("has") and not coded:
            return f"step {value} needs has: a pattern that its result shows"
    elif not isinstance(value, str) or not value:
        return f"{kinds[0]} must be text"
    if has := criterion.get("has"):
        try:
            says_nothing = neutral(str(has), numbers=kinds[0] == "file" or coded)
        except ValueError as error:
            return str(error)
        if says_nothing:
            return f"{str(has)[:80]!r} matches any text; write what only the right {kinds[0]} has"
    return ""


async def check_criterion(
    criterion: Mapping[str, Any],
    context: OperationContext,
    result_of: Callable[[int], str | None],
    since: FolderChanges | None,
    checks: Mapping[str, Check],
) -> CriterionResult:
    """Check {run}, {file, has?}, {step, has}, {same} or {check}; {judge} is left to the responder of CHECK.

    `result_of` returns a step's result, or None. `since` is the change of the folder, None if no step could
    change anything. A pattern is searched in the first `SEARCHED` characters; `^` and `$` match at lines. A
    command runs read-only and without the network, whatever the settings give to steps; without a working
    sandbox its verdict is None. A criterion whose check raises an exception does not hold.
    """
    try:
        if "check" in criterion:
            if "file" in criterion:
                context.readable(str(criterion["file"]))  # raises for a path that operations may not read
            passed, note = checks[str(criterion["check"])](criterion, context.folder, since)
            return CriterionResult(passed, redact(neutralise(note)))
        if "run" in criterion:
            return await _run(str(criterion["run"]), context)
        if "file" in criterion:
            return await _file(str(criterion["file"]), criterion.get("has"), context)
        if "step" in criterion:
            return await _step(criterion["step"], criterion.get("has"), result_of)
        if "same" in criterion:
            return _same(str(criterion["same"]), context, since)
    except Exception as error:
        return CriterionResult(False, explained(error))
    if "judge" in criterion:
        return CriterionResult(None, "yours to judge")
    return CriterionResult(False, f"none of run, file, step, same, judge: {to_json(dict(criterion))[:200]}")


async def _run(command: str, context: OperationContext) -> CriterionResult:
    try:
        with context.system(command) as system:
            ran = await context.run(
                command, system=system, timeout=context.timeout, read_only=True, network=False
            )
    except (ConfigurationError, OperationFailed) as error:
        return CriterionResult(None, f"could not be run: {error}")
    passed = ran.exit == 0 and not ran.timed_out
    ended = f"stopped after {context.timeout:g} s" if ran.timed_out else f"exit {ran.exit}"
    if ran.mode == "off":
        ended += ", without a sandbox"
    printed = outcome(redact(ran.shown).strip(), passed=passed)
    return CriterionResult(passed, f"{ended}: {printed}" if printed else ended)


async def _file(name: str, has: Any, context: OperationContext) -> CriterionResult:
    path = context.readable(name)
    if path.is_dir():
        filled = any(path.iterdir())
        said = "a folder, which has no text" if has else "a folder" if filled else "an empty folder"
        return CriterionResult(filled and not has, said)
    if not path.is_file():
        return CriterionResult(False, "not an ordinary file" if path.exists() else "missing")
    size = path.stat().st_size
    if not has:
        return CriterionResult(size > 0, f"{size} bytes" if size else "empty")
    with path.open(encoding="utf-8", errors="replace", newline="") as handle:
        text = handle.read(SEARCHED)
    return await _matches(str(has), text, f"{size} bytes, ")


async def _step(n: Any, has: Any, result_of: Callable[[int], str | None]) -> CriterionResult:
    result = result_of(int(n)) if str(n).isdecimal() else None
    if result is None:
        return CriterionResult(False, f"step {n} has no result")
    if not has:
        return CriterionResult(bool(result.strip()), f"{len(result)} characters")
    return await _matches(str(has), result, "")


async def _matches(pattern: str, text: str, seen: str) -> CriterionResult:
    try:
        found = await search(pattern, text[:SEARCHED])
    except OperationFailed as error:
        return CriterionResult(False, seen + str(error))
    if found is None:
        beyond = f" in the first {SEARCHED} characters" if len(text) >= SEARCHED else ""
        return CriterionResult(False, f"{seen}no match{beyond}")
    return CriterionResult(True, f"{seen}matched {redact(found)!r}")


def _same(name: str, context: OperationContext, since: FolderChanges | None) -> CriterionResult:
    if since is None:
        return CriterionResult(True, "nothing in the plan could change it")
    if since.unknown:
        return CriterionResult(None, f"not known: {since.unknown}")
    path = context.shown(context.readable(name))

    def inside(paths: Collection[str]) -> list[str]:
        return [each for each in paths if path == "." or each == path or each.startswith(f"{path}/")]

    old = inside(since.there())
    if not old:
        return CriterionResult(False, "was not there when the run began, or is not looked at")
    if differing := inside(since.moved):
        more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
        return CriterionResult(False, f"changed: {', '.join(differing[:_NAMED])}{more}")
    return CriterionResult(True, f"{len(old)} file{'s' if len(old) > 1 else ''} unchanged")


async def held_at_the_start(
    criterion: Mapping[str, Any],
    context: OperationContext,
    since: FolderChanges | None,
    checks: Mapping[str, Check],
) -> bool | None:
    """Whether a criterion held at the start of the run; `since` is what has changed since, None for nothing.

    A file is looked at as the run found it. Anything else cannot be tried once the folder has changed.
    """
    if since is not None and (since.unknown or since.moved):
        if "file" not in criterion or since.unknown:
            return None
        with suppress(FractalError):
            path, has = context.shown(context.readable(str(criterion["file"]))), criterion.get("has")
            if path in since.moved and path not in since.there():
                return False
            if path in since.moved:  # without a text it was empty, or too large to be kept
                text = since.before(path)
                return (not has or (await _matches(str(has), text, "")).passed) if text else None
    return (await check_criterion(criterion, context, lambda _: None, None, checks)).passed
