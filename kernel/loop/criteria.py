"""The evidence of an attempt: success criteria before and after the steps, and the files that changed.

A criterion on the folder (`run`, `file`, `check`, the trial of a draft) can prove that work was done: it
failed before and holds now. One on a step's result, `same` and `judge` are conditions, which prove nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from kernel.asking.prompt import TRIED
from kernel.asking.replies import pattern_of, quick
from kernel.document.escaping import fingerprint, to_json
from kernel.document.redaction import redact
from kernel.document.references import SHELL, in_shell, references
from kernel.document.texts import cut, neutralise, outcome
from kernel.errors import (
    ConfigurationError,
    DocumentError,
    FractalError,
    OperationFailed,
    ReplyError,
    explained,
)
from kernel.loop.approval import APPROVED, CHECKS_WAIT, checks_of, unapproved
from kernel.loop.do import SUCCEEDED
from kernel.loop.hooks import AtStart, Check, FolderChanges
from kernel.loop.run_context import Session, results_of, skills_of
from kernel.tools.operations import OperationContext

SEARCHED = 1_000_000
"""Characters of a text that are searched for a pattern."""
PATTERN = 1_000
"""Maximum characters of a pattern."""
SEARCH_SECONDS = 5.0
"""Time limit of a search in its own process."""
PASSED_TAIL, FAILED_TAIL = 250, 2_500
"""Characters of a command's output that are kept, mostly its tail."""
_SEARCH = (
    "import json, re, signal, sys; signal.alarm(30); pattern, text = json.load(sys.stdin); "
    "hit = re.search(pattern, text, re.MULTILINE); print(json.dumps(hit and hit[0][:60]))"
)
QUICK = 4_000
"""Maximum characters of a text that is searched in this process; the pattern must be `quick`."""
_PLAIN = re.compile(r"[^\\.^$*+?{}\[\]|()]+")
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
    command runs read-only and without the network, whatever the settings give to steps; without a working
    sandbox its verdict is None. A criterion whose check raises an exception does not hold.
    """
    try:
        if "check" in criterion:
            if "file" in criterion:
                context.readable(str(criterion["file"]))  # raises for a path that operations may not read
            passed, note = (checks or {})[str(criterion["check"])](criterion, context.folder, since)
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
            ran = await context.run(
                command, system=system, timeout=context.timeout, read_only=True, network=False
            )
    except (ConfigurationError, OperationFailed) as error:
        return CriterionResult(None, f"could not be run: {error}")
    passed = ran.exit == 0 and not ran.timed_out
    ended = f"stopped after {context.timeout:g} s" if ran.timed_out else f"exit {ran.exit}"
    if ran.mode == "off":
        ended += ", without a sandbox"
    printed = redact(ran.shown).strip()
    printed = outcome(printed, PASSED_TAIL if passed else FAILED_TAIL, passed=passed)
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
    return CriterionResult(True, f"{seen}matched {redact(found)!r}")


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


async def _search_apart(pattern: str, text: str) -> bytes:
    """Search in a separate process, which can be stopped and which ends by itself if this one dies."""
    process = await asyncio.create_subprocess_exec(
        *(os.path.realpath(sys.executable), "-I", "-S", "-c", _SEARCH),
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT,
        cwd="/",
        env={},
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


COMMANDS = ("run", "keep", "tests")
"""The criteria that are commands: fails before and passes now; passes at both; the touched tests."""
_NOT_TRIED = "not tried now"
_TRIED: Mapping[str, bool] = {"holds now": True, "fails now": False}
DIFF_CHARS = 2000
"""Maximum characters of a changed file's diff in CHECK: with 600, responders read the file again."""
_WORDS: Mapping[bool | None, str] = {True: "pass", False: "FAIL", None: "judge"}
_LINE = re.compile(r"- (pass|FAIL|judge) (?=\{)")
_REST = re.compile(r"(?: \(before: (pass|FAIL|judge)\))? → (.*)")


@dataclass(frozen=True)
class Finding:
    """One criterion: whether it held before the first step and after the last.

    None is for what was not tried: no result of a step is there before, and code judges nothing.
    """

    criterion: Mapping[str, Any]
    before: bool | None
    after: bool | None
    note: str

    def line(self) -> str:
        """The finding as one line of §4."""
        before = "" if self.before is None else f" (before: {_WORDS[self.before]})"
        return f"- {_WORDS[self.after]} {to_json(dict(self.criterion))}{before} → {to_json(self.note)[1:-1]}"

    @staticmethod
    def read(line: str) -> Finding | None:
        """Read a line of §4; None if it is no finding."""
        back = {word: value for value, word in _WORDS.items()}
        with suppress(ValueError):
            if hit := _LINE.match(line):
                criterion, end = json.JSONDecoder().raw_decode(line, hit.end())
                if rest := _REST.fullmatch(line, end):
                    note = json.loads(f'"{rest[2]}"')
                    return Finding(criterion, back.get(rest[1]), back[hit[1]], note)
        return None


def command_of(criterion: Mapping[str, Any]) -> str:
    """The command of a criterion; "" if it is of another kind."""
    return next((str(criterion[kind]) for kind in COMMANDS if kind in criterion), "")


def proves(criterion: Mapping[str, Any]) -> bool:
    """Whether a criterion is about the folder, so that it can fail before the work and hold after it."""
    if "run" in criterion:
        command = in_shell(str(criterion["run"]))
        return not (references(command) or references(command, "earlier"))
    return bool(criterion.keys() & {"file", "check", "draft"})


async def baseline(
    session: Session,
    success: Sequence[Mapping[str, Any]],
    *,
    retry: bool,
    fails: bool = True,
    held: bool = False,
) -> list[bool | None]:
    """Whether each criterion held at the start of the run; None for what cannot be tried there.

    No command runs for a plan that is `held` until somebody approves it, nor one that needs an approval of
    its own. `late_baseline` tries it then.

    Raises `ReplyError` if one has to fail (`fails`) and none does: the criteria could prove nothing.
    """
    before: list[bool | None] = []
    bash = session.catalogue.tools.get("bash")
    since = await since_the_start(session) if retry else None
    for criterion in success:
        if "run" in criterion and _no_commands(session):
            raise ReplyError(f"success: run: {_no_commands(session)}; use file, step or same")
        if (
            bash
            and "run" in criterion
            and (dangers := session.run.hooks.guard(bash, {"command": criterion["run"]}))
        ):
            raise ReplyError(f"success: {criterion['run']}: {dangers[0]}; a criterion only looks")
        if "same" in criterion:
            before.append(True)
        elif not proves(criterion) or ("run" in criterion and (held or _not_granted(session, criterion))):
            before.append(None)
        else:
            before.append(await _at_the_start(session, criterion, since))
    if fails and not retry and success and all(before):
        raise ReplyError(
            "every success criterion holds already; at least one must fail now and hold once done"
        )
    return before


async def late_baseline(session: Session) -> None:
    """Try the commands that had to wait for an approval, before the first step."""
    if any(step.state not in ("planned", "waiting") for step in session.doc.attempted):
        return
    lines, tried = session.doc.text(2, "baseline").splitlines(), False
    since = await since_the_start(session) if session.doc.meta.attempt > 1 else None
    for at, (criterion, _) in enumerate(_criteria(session)):
        waits = at < len(lines) and lines[at].startswith(f"{_NOT_TRIED}: ")
        if waits and "run" in criterion and proves(criterion) and not _not_granted(session, criterion):
            held = await _at_the_start(session, criterion, since)
            lines[at] = f"{_now(criterion, held)}: {to_json(criterion)}"
            tried = tried or held is not None
    if tried:
        session.note(2, "baseline", "\n".join(lines))


def ask_for_checks(session: Session) -> str:
    """The name of the question to approve before the commands of criteria run; "" if none."""
    bash, asked = session.catalogue.tools.get("bash"), session.doc.text(2, "checks")
    if asked or bash is None:
        return ""
    needs = [each for each in checks_of(session.doc) if any(unapproved(session.run, bash, {"command": each}))]
    return f"{CHECKS_WAIT} [{fingerprint(checks_of(session.doc))}]" if needs else ""


def _no_commands(session: Session) -> str:
    """Why a loop may run no command at all, as `bash` was taken from it; "" if it may."""
    hidden = "bash" in session.run.catalogue.tools and "bash" not in session.catalogue.tools
    return "there is no tool 'bash' here, and a criterion runs no command without it" if hidden else ""


async def _at_the_start(
    session: Session, criterion: Mapping[str, Any], since: FolderChanges | None
) -> bool | None:
    """Whether a criterion held before this loop changed anything.

    An earlier attempt may have tried it. A file is looked at as the run found it. Anything else cannot be
    tried once the folder has changed.
    """
    if (known := _tried(session).get(to_json(dict(criterion)))) is not None:
        return known
    context = session.run.context(None, skills_of(session.doc))
    if since is not None and (since.unknown or since.moved):
        if "file" not in criterion or since.unknown:
            return None
        with suppress(FractalError):
            path = context.shown(context.readable(str(criterion["file"])))
            if path in since.moved:
                return await _file_then(path, criterion.get("has"), since)
    return (await check_criterion(criterion, context, lambda _: None, None, session.run.hooks.checks)).passed


async def _file_then(path: str, has: Any, since: FolderChanges) -> bool | None:
    """Whether a file that has changed was there, and had a pattern, at the start of the run."""
    if path not in since.there():
        return False
    if not (text := since.before(path)):
        return None  # it was empty, or too large to be kept
    return not has or (await _matches(str(has), text[:SEARCHED], "")).passed


def _tried(session: Session) -> dict[str, bool]:
    """What earlier attempts of this loop found before their first step, by criterion."""
    notes = [note for fold in session.doc.section(2).folds for note in fold.notes if note.key == TRIED]
    found: dict[str, bool] = {}
    for line in (line for note in notes for line in note.text.splitlines()):
        word, _, criterion = line.partition(": ")
        if word in _TRIED:
            found.setdefault(criterion, _TRIED[word])
    return found


def _not_granted(session: Session, criterion: Mapping[str, Any], asked: str = "") -> str:
    """Why a command may not run as a criterion; "" if it may. It needs the approval of a step of bash.

    An approval of the checks is for those that were shown: `asked` is how the question showed this one.
    """
    if why := _no_commands(session):
        return why
    bash = session.catalogue.tools.get("bash")
    shown = (asked or str(criterion["run"])) in checks_of(session.doc)
    if bash is None or (shown and session.doc.text(2, "checks").startswith(APPROVED)):
        return ""
    effects, dangers = unapproved(session.run, bash, {"command": criterion["run"]})
    needs = "; ".join([*(f"it may {effect}" for effect in effects), *map(str, dangers)])
    return f"that needs a person's approval ({needs})" if needs else ""


async def gather_evidence(
    session: Session, since: FolderChanges | None, tests: str = ""
) -> tuple[list[Finding], list[str], str]:
    """After the last step: the findings, one line per changed file, and the diffs of changed text.

    `since` are the changes since the start of the run, in every attempt and loop. `tests` is the command of
    the touched tests, which are run beside the criteria.
    """
    findings: list[Finding] = []
    for trial in await session.run.hooks.trials(session):
        findings.append(Finding({"draft": trial.unit}, None, trial.passed, trial.note))
    snapshots = session.run.snapshots
    kept = snapshots is not None and not snapshots.why_not() and not (since and since.unknown)
    async with snapshots.at_start() if snapshots and kept else nullcontext() as start:
        beside: list[tuple[dict[str, Any], bool | None]] = [({"tests": tests}, None)] if tests else []
        for criterion, before in [*_criteria(session), *beside]:
            finding = Finding(criterion, before, *await _after(session, criterion, since))
            finding = await _tried_where_it_may_write(session, finding, start)
            findings.append(await _tried_at_the_start(session, finding, since, start))
    if since is None:
        return findings, [], ""
    diffs = [f"{name}\n{cut(diff, DIFF_CHARS, name)}" for name, diff in since.diffs]
    return findings, list(since.lines), "\n".join(diffs)


async def _tried_where_it_may_write(session: Session, finding: Finding, start: AtStart | None) -> Finding:
    """The finding of a command that failed, tried again on a copy of the folder in which it may write.

    The folder itself is read-only for it, and a test run may fail for its cache alone.
    """
    command = command_of(finding.criterion)
    if start is None or not command or finding.after is not False or "$RESULT_" in command:
        return finding
    context = session.run.context(None, skills_of(session.doc))
    trial = await start.try_now(session.run.id, command, context, seconds=context.timeout)
    if trial.exit is None:
        return finding
    told = f"exit {trial.exit}"
    if not trial.ran:
        return replace(
            finding, after=None if trial.note else False, note=f"{trial.note or told}: {trial.output}"
        )
    passed = trial.exit == 0
    printed = outcome(trial.output, PASSED_TAIL if passed else FAILED_TAIL, passed=passed)
    return replace(finding, after=passed, note=f"{told}: {printed}")


async def _tried_at_the_start(
    session: Session, finding: Finding, since: FolderChanges | None, start: AtStart | None
) -> Finding:
    """The finding with what its command says of the folder as it was at the start of the run.

    A command of `run` is tried there with today's test files: else a new test could never be shown to fail
    before. One of `keep` that failed there already is no fault of this run.
    """
    criterion, keeps = finding.criterion, "run" not in finding.criterion
    command = command_of(criterion)
    wanted = finding.before is None and finding.after is not None and (keeps or finding.after)
    if not (command and wanted) or references(in_shell(command)) or references(in_shell(command), "earlier"):
        return finding
    if since is None:  # nothing has changed since
        return replace(finding, before=finding.after)
    if start is None:
        return finding
    context = session.run.context(None, skills_of(session.doc))
    trial = await start.try_at_start(
        session.run.id, command, context, tests=not keeps, seconds=context.timeout
    )
    said = trial.note or f"exit {trial.exit}"
    note = f"{finding.note}; at the start: {said}"
    if not trial.ran:
        return replace(finding, note=note)
    before = trial.exit == 0
    after = None if keeps and not before and finding.after is False else finding.after
    return replace(finding, before=before, after=after, note=note)


async def since_the_start(session: Session) -> FolderChanges | None:
    """The change of the folder since the start of the run; None if no step could change it."""
    try:
        return await session.run.snapshots.since_start(session.run.id) if session.run.snapshots else None
    except FractalError as error:
        session.emit("warning", message=f"no changes can be shown: {error}")
        return FolderChanges(unknown=str(error))


def _criteria(session: Session) -> list[tuple[dict[str, Any], bool | None]]:
    lines = session.doc.text(2, "success criteria").splitlines()
    success = [_criterion(line) for line in lines if line.strip()]
    lines = (line.partition(": ") for line in session.doc.text(2, "baseline").splitlines())
    before = {criterion: _TRIED.get(word) for word, _, criterion in lines}  # one that was replaced has none
    return [(each, before.get(to_json(each)) if proves(each) or "same" in each else None) for each in success]


def _criterion(line: str) -> dict[str, Any]:
    """A criterion of §2. Plain text written by a person becomes `judge`."""
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {"judge": line}


async def _after(session: Session, criterion: dict[str, Any], since: FolderChanges | None) -> CriterionResult:
    context = session.run.context(None, skills_of(session.doc))
    if asked := command_of(criterion):
        criterion = {"run": asked}
        try:
            command = session.filled(in_shell(str(criterion["run"])))[SHELL]
            criterion = {**criterion, "run": command}
            context = replace(context, results=results_of(session, command))
        except (OperationFailed, DocumentError) as error:
            return CriterionResult(False, str(error))
        if why := _not_granted(session, criterion, asked):
            return CriterionResult(None, f"not run: {why}")

    def result_of(n: int) -> str | None:
        step = session.doc.steps.get(n)
        return session.whole(step) if step and step.state in SUCCEEDED else None

    return await check_criterion(criterion, context, result_of, since, session.run.hooks.checks)


def baseline_note(success: Sequence[Mapping[str, Any]], before: Sequence[bool | None]) -> str:
    """The note `baseline` of §2: one line per criterion."""
    return "\n".join(
        f"{_now(one, held)}: {to_json(dict(one))}" for one, held in zip(success, before, strict=True)
    )


def _now(criterion: Mapping[str, Any], held: bool | None) -> str:
    if held is not None:
        return "holds now" if held else "fails now"
    if "judge" in criterion:
        return "to be judged"
    return _NOT_TRIED if proves(criterion) else "a condition"


def proven(findings: Sequence[Finding]) -> bool:
    """Whether no criterion fails, and one on the folder failed before and holds now.

    The trial of a draft needs no try before: there was no draft.
    """
    return all(each.after is not False for each in findings) and any(
        each.after is True and (each.before is False or "draft" in each.criterion) and proves(each.criterion)
        for each in findings
    )
