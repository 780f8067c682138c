"""The evidence of an attempt: success criteria before and after the steps, and the files that changed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from kernel.asking.replies import pattern_of
from kernel.document.escaping import to_json
from kernel.document.redaction import cut, neutralise, redact
from kernel.document.references import SHELL, in_shell, references
from kernel.errors import (
    ConfigurationError,
    DocumentError,
    FractalError,
    OperationFailed,
    ReplyError,
    explained,
)
from kernel.loop.approval import unapproved
from kernel.loop.do import SUCCEEDED
from kernel.loop.run_context import Check, FolderChanges, Session, results_of, skills_of
from kernel.tools.operations import OperationContext

SEARCHED = 1_000_000
"""Characters of a text that are searched for a pattern."""
PATTERN = 1_000
"""Maximum characters of a pattern."""
SEARCH_SECONDS = 5.0
"""Time limit of a search in its own process."""
TAIL = 500
"""Characters of a failing command's output, mostly its tail. Source: prompts.md."""
_SEARCH = (
    "import json, re, signal, sys; signal.alarm(30); pattern, text = json.load(sys.stdin); "
    "hit = re.search(pattern, text, re.MULTILINE); print(json.dumps(hit and hit[0][:60]))"
)
QUICK = 4_000
"""Maximum characters of a text that is searched in this process; the pattern must be `quick`."""
_PLAIN = re.compile(r"[^\\.^$*+?{}\[\]|()]+")
_CHOICES = re.compile(r"[*+?{|]|\\[1-9]")
_NAMED = 5
_MARK = re.compile(r"\[(?:exit \d+|stopped after [^\]]*)\]")
"""The last line of a failed command's result."""


class CriterionResult(NamedTuple):
    """Whether a criterion holds (None: code cannot decide), and what was found."""

    passed: bool | None
    note: str


async def check_criterion(
    criterion: Mapping[str, Any],
    context: OperationContext,
    result_of: Callable[[int], str | None],
    since: FolderChanges | None,
    checks: Mapping[str, Check] | None = None,
) -> CriterionResult:
    """Check {run}, {file, has?}, {step, has}, {same} or {check}; {judge} is left to the responder of CHECK.

    `result_of` returns a step's result, or None. `since` is the change of the folder, None if no step could
    change anything. A pattern is searched in the first `SEARCHED` characters; `^` and `$` match at lines. A
    command runs read-only; without a working sandbox its verdict is None. A criterion whose check raises an
    exception does not hold.
    """
    try:
        if "check" in criterion:
            if "file" in criterion:
                context.readable(str(criterion["file"]))  # raises for a path that operations may not read
            passed, note = (checks or {})[str(criterion["check"])](criterion, context.folder, since)
            return CriterionResult(passed, redact(neutralise(note), os.environ))
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


def reason(result: str) -> str:
    """The most informative line of a failed step's result: a command's last output, else the first line."""
    lines = [line.strip() for line in result.splitlines() if line.strip()]
    marks = [line for line in lines[1:] if _MARK.fullmatch(line)]
    words = [line for line in lines if line not in marks]
    if not words:
        return " ".join(lines)
    return " ".join([words[-1], *marks]) if marks else words[0]


async def _run(command: str, context: OperationContext) -> CriterionResult:
    try:
        with context.system(command) as system:
            ran = await context.run(command, system=system, timeout=context.timeout, read_only=True)
    except (ConfigurationError, OperationFailed) as error:
        return CriterionResult(None, f"could not be run: {error}")
    passed = ran.exit == 0 and not ran.timed_out
    ended = f"stopped after {context.timeout:g} s" if ran.timed_out else f"exit {ran.exit}"
    if ran.mode == "off":
        ended += ", without a sandbox"
    printed = redact(neutralise(ran.output), os.environ).strip()
    printed = cut(printed, TAIL // 2 if passed else TAIL, "")
    return CriterionResult(passed, f"{ended}: {printed}" if printed else ended)


async def _file(name: str, has: Any, context: OperationContext) -> CriterionResult:
    path = context.readable(name)
    try:
        if path.is_dir():
            return _folder(path, has)
        if not path.exists():
            return CriterionResult(False, "missing")
        if not path.is_file():
            return CriterionResult(False, "not an ordinary file")
        size = path.stat().st_size
        if not has:
            return CriterionResult(size > 0, f"{size} bytes" if size else "empty")
        with path.open(encoding="utf-8", errors="replace", newline="") as handle:
            text = handle.read(SEARCHED)
    except OSError as error:
        return CriterionResult(False, f"cannot be read: {error.strerror}")
    return await _matches(str(has), text, f"{size} bytes, ")


def _folder(path: Path, has: Any) -> CriterionResult:
    if has:
        return CriterionResult(False, "a folder, which has no text")
    filled = any(path.iterdir())
    return CriterionResult(filled, "a folder" if filled else "an empty folder")


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
    return CriterionResult(True, f"{seen}matched {redact(found, os.environ)!r}")


async def search(pattern: str, text: str) -> str | None:
    """The first 60 characters of the first match; None if there is no match.

    Raises `OperationFailed` for an invalid pattern and for a search of more than `SEARCH_SECONDS`.
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
    return json.loads(await _search_apart(pattern, text))


def quick(pattern: str) -> bool:
    """Whether a regular expression has at most one choice, so that it is fast on any text."""
    return len(_CHOICES.findall(pattern)) <= 1


async def _search_apart(pattern: str, text: str) -> bytes:
    """Search in a separate process, which can be stopped and which ends by itself if this one dies."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SEARCH), stdin=PIPE, stdout=PIPE, stderr=STDOUT, env={}
    )
    try:
        given = json.dumps([pattern, text]).encode()
        printed, _ = await asyncio.wait_for(process.communicate(given), SEARCH_SECONDS)
    except TimeoutError:
        message = f"{pattern!r} took longer than {SEARCH_SECONDS:g} s; use a simpler pattern"
        raise OperationFailed(message) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = printed.decode("utf-8", "replace")[-200:].strip()
        raise OperationFailed(f"{pattern!r} could not be searched: {said}")
    return printed


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


DIFF_CHARS = 2000
"""Maximum characters of a changed file's diff in CHECK: with 600, responders read the file again."""
_WORDS: Mapping[bool | None, str] = {True: "pass", False: "FAIL", None: "judge"}
_LINE = re.compile(r"- (pass|FAIL|judge) (?=\{)")
_REST = re.compile(r" \(before: (pass|FAIL|judge)\) → (.*)")


@dataclass(frozen=True)
class Finding:
    """One criterion: whether it held before the first step and after the last (None: code cannot decide)."""

    criterion: Mapping[str, Any]
    before: bool | None
    after: bool | None
    note: str

    def line(self) -> str:
        """The finding as one line of §4."""
        return (
            f"- {_WORDS[self.after]} {to_json(dict(self.criterion))} (before: {_WORDS[self.before]}) → "
            f"{to_json(self.note)[1:-1]}"
        )

    @staticmethod
    def read(line: str) -> Finding | None:
        """Read a line of §4; None if it is no finding."""
        back = {word: value for value, word in _WORDS.items()}
        with suppress(ValueError):
            if hit := _LINE.match(line):
                criterion, end = json.JSONDecoder().raw_decode(line, hit.end())
                if rest := _REST.fullmatch(line, end):
                    note = json.loads(f'"{rest[2]}"')
                    return Finding(criterion, back[rest[1]], back[hit[1]], note)
        return None


async def baseline(
    session: Session, success: Sequence[Mapping[str, Any]], *, retry: bool
) -> list[bool | None]:
    """Whether each criterion holds before the first step.

    Raises `ReplyError` for a plan whose criteria could prove nothing.
    """
    before: list[bool | None] = []
    # without a sandbox, a plan that waits for approval runs no command yet
    unseen = session.run.sandbox.mode == "off" and session.doc.meta.extra.get("plan_only")
    bash = session.catalogue.tools.get("bash")
    for criterion in success:
        if "run" in criterion and _no_commands(session):
            raise ReplyError(f"success: run: {_no_commands(session)}; use file, step or same")
        if (
            bash
            and "run" in criterion
            and (dangers := session.run.guard(bash, {"command": criterion["run"]}))
        ):
            raise ReplyError(f"success: {criterion['run']}: {dangers[0]}; a criterion only looks")
        if "run" in criterion and (unseen or _not_granted(session, criterion)):
            before.append(None)
        elif "step" in criterion or references(in_shell(str(criterion.get("run", "")))):
            before.append(False)  # there is no result yet
        elif "same" in criterion:
            before.append(True)
        else:
            context = session.run.context(None, skills_of(session.doc))
            result = await check_criterion(criterion, context, lambda _: None, None, session.run.checks)
            before.append(result.passed)
    judged = any("judge" in criterion for criterion in success)
    if not retry and False not in before and None not in before and not judged:
        raise ReplyError(
            "every success criterion holds already; at least one must fail now and hold once done"
        )
    return before


def _no_commands(session: Session) -> str:
    """Why a loop may run no command at all, as `bash` was taken from it; "" if it may."""
    hidden = "bash" in session.run.catalogue.tools and "bash" not in session.catalogue.tools
    return "there is no tool 'bash' here, and a criterion runs no command without it" if hidden else ""


def _not_granted(session: Session, criterion: Mapping[str, Any]) -> str:
    """Why a command may not run as a criterion; "" if it may.

    In the sandbox it is read-only. Without one it needs the same approval as a step of bash.
    """
    if why := _no_commands(session):
        return why
    bash = session.catalogue.tools.get("bash")
    if session.run.sandbox.mode != "off" or bash is None:
        return ""
    effects, dangers = unapproved(session.run, bash, {"command": criterion["run"]})
    needs = "; ".join([*(f"it may {effect}" for effect in effects), *map(str, dangers)])
    return f"that needs a person's approval ({needs})" if needs else ""


async def gather_evidence(session: Session) -> tuple[list[Finding], list[str], str]:
    """After the last step: the findings, one line per changed file, and the diffs of changed text.

    Changes are relative to the start of the run, in every attempt and loop.
    """
    findings: list[Finding] = []
    for trial in await session.run.trials(session):
        findings.append(Finding({"draft": trial.unit}, False, trial.passed, trial.note))
    since = await _since_the_start(session)
    for criterion, before in _criteria(session):
        findings.append(Finding(criterion, before, *await _after(session, criterion, since)))
    if since is None:
        return findings, [], ""
    diffs = [f"{name}\n{cut(diff, DIFF_CHARS, name)}" for name, diff in since.diffs]
    return findings, list(since.lines), "\n".join(diffs)


async def _since_the_start(session: Session) -> FolderChanges | None:
    """The change of the folder since the start of the run; None if no step could change it."""
    try:
        return await session.run.snapshots.since_start(session.run.id) if session.run.snapshots else None
    except FractalError as error:
        session.emit("warning", message=f"no changes can be shown: {error}")
        return FolderChanges(unknown=str(error))


def _criteria(session: Session) -> list[tuple[dict[str, Any], bool | None]]:
    lines = session.doc.text(2, "success criteria").splitlines()
    success = [_criterion(line) for line in lines if line.strip()]
    marks = [line.partition(" ")[0] for line in session.doc.text(2, "baseline").splitlines()]
    known: Mapping[str, bool | None] = {"holds": True, "fails": False}
    return [(each, known.get(marks[at]) if at < len(marks) else None) for at, each in enumerate(success)]


def _criterion(line: str) -> dict[str, Any]:
    """A criterion of §2. Plain text written by a person becomes `judge`."""
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {"judge": line}


async def _after(session: Session, criterion: dict[str, Any], since: FolderChanges | None) -> CriterionResult:
    context = session.run.context(None, skills_of(session.doc))
    if "run" in criterion:
        try:
            command = session.filled(in_shell(str(criterion["run"])))[SHELL]
            criterion = {**criterion, "run": command}
            context = replace(context, results=results_of(session, command))
        except (OperationFailed, DocumentError) as error:
            return CriterionResult(False, str(error))
        if why := _not_granted(session, criterion):
            return CriterionResult(None, f"not run: {why}")

    def result_of(n: int) -> str | None:
        step = session.doc.steps.get(n)
        return session.whole(step) if step and step.state in SUCCEEDED else None

    return await check_criterion(criterion, context, result_of, since, session.run.checks)


def baseline_note(success: Sequence[Mapping[str, Any]], before: Sequence[bool | None]) -> str:
    """The note `baseline` of §2: one line per criterion."""
    words: Mapping[bool | None, str] = {True: "holds now", False: "fails now", None: "to be judged"}
    return "\n".join(
        f"{words[each]}: {to_json(dict(one))}" for one, each in zip(success, before, strict=True)
    )


def proven(session: Session, findings: Sequence[Finding]) -> bool:
    """Whether a criterion failed before and holds now, apart from results of unverified children."""
    for finding in findings:
        if finding.after is True and finding.before is False:
            step = session.doc.steps.get(int(finding.criterion.get("step", 0)))
            if step is None or not step.evidence.get("unverified"):
                return True
    return False
