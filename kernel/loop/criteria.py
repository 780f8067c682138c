"""What shows that a loop has done its task: its criteria, each tried at the start of the run and now.

A criterion on the folder (`run`, `keep`, `file`, `check`, the trial of a draft) can prove that work was done:
it failed before and holds now. One on a step's result, `same` and `judge` are conditions: they prove nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from kernel.asking.prompt import TRIED
from kernel.document.escaping import fingerprint, to_json
from kernel.document.model import Document
from kernel.document.references import SHELL, in_shell, references
<<<<<<< HEAD
=======
from kernel.document.texts import cut, neutralise, outcome
>>>>>>> main
from kernel.errors import (
    DocumentError,
    FractalError,
    OperationFailed,
    ReplyError,
)
from kernel.loop.approval import APPROVED, CHECKS_WAIT, unapproved
from kernel.loop.do import SUCCEEDED
from kernel.loop.hooks import AtStart, FolderChanges, Proved
from kernel.loop.run_context import Session, results_of, skills_of
<<<<<<< HEAD
=======
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

>>>>>>> main

COMMANDS = ("run", "keep", "tests")
"""The criteria that are commands: fails before and passes now; passes at both; the touched tests."""
_NOT_TRIED = "not tried now"
_TRIED: Mapping[str, bool] = {"holds now": True, "fails now": False}
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

    @property
    def command(self) -> str:
        """The command of the criterion; "" if it is of another kind."""
        return next((str(self.criterion[kind]) for kind in COMMANDS if kind in self.criterion), "")

    @property
    def starts(self) -> bool:
        """Whether it matters what its command says of the start: a `run` that fails now proves nothing."""
        return self.before is None and self.after is not None and ("run" not in self.criterion or self.after)

    @property
    def tells(self) -> bool:
        """Whether the criterion says what is in the folder, and not only that something is there."""
        return proves(self.criterion) and ("file" not in self.criterion or bool(self.criterion.get("has")))


@dataclass(frozen=True)
class Evidence:
    """What was found after the last step. `since` is what changed since the start; None if nothing could."""

    findings: Sequence[Finding]
    since: FolderChanges | None
    proved: Proved


# ---- what is written in §2 -------------------------------------------------------------------------------


def proves(criterion: Mapping[str, Any]) -> bool:
    """Whether a criterion is about the folder, so that it can fail before the work and hold after it."""
    if "run" in criterion:
        return not _uses_results(str(criterion["run"]))
    return bool(criterion.keys() & {"file", "check", "draft"})


<<<<<<< HEAD
=======
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


>>>>>>> main
def proven(findings: Sequence[Finding]) -> bool:
    """Whether no criterion fails, and one on the folder failed before and holds now.

    The trial of a draft needs no try before: there was no draft.
    """
    return all(each.after is not False for each in findings) and any(
        each.after is True and (each.before is False or "draft" in each.criterion) and proves(each.criterion)
        for each in findings
    )


def _uses_results(command: str) -> bool:
    shell = in_shell(command)
    return bool(references(shell) or references(shell, "earlier"))


def listed(document: Document) -> list[Finding]:
    """The criteria of §2 with what they said at the start, not tried now. Plain text is to be judged."""
    before = _read_baseline(document.text(2, "baseline"))  # one that was replaced has none
    found: list[Finding] = []
    for line in document.text(2, "success criteria").splitlines():
        value: Any = None
        with suppress(ValueError):
            value = json.loads(line)
        each = cast(dict[str, Any], value) if isinstance(value, dict) else {"judge": line}
        known = before.get(to_json(each)) if proves(each) or "same" in each else None
        found += [Finding(each, known, None, "")] if line.strip() else []
    return found


def checks_of(document: Document) -> list[str]:
    """The commands among the criteria of a plan."""
    return [each.command for each in listed(document) if each.command]


def baseline_note(success: Sequence[Mapping[str, Any]], before: Sequence[bool | None]) -> str:
    """The note `baseline` of §2: one line per criterion."""
    words = {True: "holds now", False: "fails now"}
    lines: list[str] = []
    for each, held in zip(success, before, strict=True):
        untried = "to be judged" if "judge" in each else _NOT_TRIED if proves(each) else "a condition"
        lines.append(f"{untried if held is None else words[held]}: {to_json(dict(each))}")
    return "\n".join(lines)


def _read_baseline(text: str) -> dict[str, bool]:
    """What a note `baseline` says of the criteria that were tried."""
    lines = (line.partition(": ") for line in text.splitlines())
    return {criterion: _TRIED[word] for word, _, criterion in lines if word in _TRIED}


# ---- at the start ----------------------------------------------------------------------------------------


async def baseline(
    session: Session, success: Sequence[Mapping[str, Any]], *, fails: bool = True, held: bool = False
) -> list[bool | None]:
    """Whether each criterion held at the start of the run; None for what cannot be tried there.

    No command runs for a plan that is `held` until somebody approves it, nor one that needs an approval of
    its own. `late_baseline` tries it then.

    Raises `ReplyError` if one has to fail (`fails`) and none does: the criteria could prove nothing.
    """
    for criterion in success:
        if "run" in criterion and (why := _refused(session, criterion["run"])):
            raise ReplyError(f"success: {why}")
    retry = session.doc.meta.attempt > 1
    since = await since_the_start(session) if retry else None
    before = [
        None if held and "run" in criterion else await _at_the_start(session, criterion, since)
        for criterion in success
    ]
    if fails and not retry and success and all(before):
        raise ReplyError(
            "every success criterion holds already; at least one must fail now and hold once done"
        )
    return before


async def late_baseline(session: Session) -> None:
    """Try the commands that had to wait for an approval, before the first step."""
    if any(step.state not in ("planned", "waiting") for step in session.doc.attempted):
        return
    known = listed(session.doc)
    since = await since_the_start(session) if session.doc.meta.attempt > 1 else None
    late = [
        await _at_the_start(session, each.criterion, since)
        if each.before is None and "run" in each.criterion
        else each.before
        for each in known
    ]
    if late != [each.before for each in known]:
        session.note(2, "baseline", baseline_note([each.criterion for each in known], late))


def ask_for_checks(session: Session) -> str:
    """The name of the question to approve before the commands of criteria run; "" if none."""
    bash, asked = session.catalogue.tools.get("bash"), session.doc.text(2, "checks")
    if asked or bash is None:
        return ""
    needs = [each for each in checks_of(session.doc) if any(unapproved(session.run, bash, {"command": each}))]
    return f"{CHECKS_WAIT} [{fingerprint(checks_of(session.doc))}]" if needs else ""


def _refused(session: Session, command: str) -> str:
    """Why a plan may not have this command as a criterion; "" if it may."""
    if why := _no_commands(session):
        return f"run: {why}; use file, step or same"
    bash = session.catalogue.tools.get("bash")
    dangers = session.run.hooks.guard(bash, {"command": command}) if bash else ()
    return f"{command}: {dangers[0]}; a criterion only looks" if dangers else ""


def _no_commands(session: Session) -> str:
    """Why a loop may run no command at all, as `bash` was taken from it; "" if it may."""
    hidden = "bash" in session.run.catalogue.tools and "bash" not in session.catalogue.tools
    return "there is no tool 'bash' here, and a criterion runs no command without it" if hidden else ""


def _not_granted(session: Session, command: str, asked: str = "") -> str:
    """Why a command may not run as a criterion; "" if it may. It needs the approval of a step of bash.

    An approval of the checks is for those that were shown: `asked` is how the question showed this one.
    """
    if why := _no_commands(session):
        return why
    bash = session.catalogue.tools.get("bash")
    shown = (asked or command) in checks_of(session.doc)
    if bash is None or (shown and session.doc.text(2, "checks").startswith(APPROVED)):
        return ""
    effects, dangers = unapproved(session.run, bash, {"command": command})
    needs = "; ".join([*(f"it may {effect}" for effect in effects), *map(str, dangers)])
    return f"that needs a person's approval ({needs})" if needs else ""


async def _at_the_start(
    session: Session, criterion: Mapping[str, Any], since: FolderChanges | None
) -> bool | None:
    """Whether a criterion held before this loop changed anything; None for what cannot or may not be tried.

    An earlier attempt may have tried it: the first one counts.
    """
    if "same" in criterion:
        return True
    if not proves(criterion) or ("run" in criterion and _not_granted(session, criterion["run"])):
        return None
    notes = [note for fold in session.doc.section(2).folds for note in fold.notes if note.key == TRIED]
    for note in notes:
        if (known := _read_baseline(note.text).get(to_json(dict(criterion)))) is not None:
            return known
    context = session.run.context(None, skills_of(session.doc))
    return await session.run.hooks.held(criterion, context, since)


# ---- after the last step ---------------------------------------------------------------------------------


async def since_the_start(session: Session) -> FolderChanges | None:
    """The change of the folder since the start of the run; None if no step could change it."""
    try:
        return await session.run.snapshots.since_start(session.run.id) if session.run.snapshots else None
    except FractalError as error:
        session.emit("warning", message=f"no changes can be shown: {error}")
        return FolderChanges(unknown=str(error))


async def gather(session: Session, answer: str | None = None) -> Evidence:
    """Try each criterion after the last step, and what code shows by itself of an `answer`.

    The touched tests are run beside the criteria. Changes are those since the start of the run, in every
    attempt and loop.
    """
    since = await since_the_start(session)
    proved = Proved() if answer is None else session.run.hooks.prove(session, answer, since)
    trials = await session.run.hooks.trials(session)
    findings = [Finding({"draft": trial.unit}, None, trial.passed, trial.note) for trial in trials]
    criteria, snapshots = listed(session.doc), session.run.snapshots
    if proved.tests and to_json(proved.tests) not in session.doc.text(2, "success criteria"):
        criteria.append(Finding({"tests": proved.tests}, None, None, ""))
    kept = snapshots is not None and not snapshots.why_not() and not (since and since.unknown)
    async with snapshots.at_start() if snapshots and kept else nullcontext() as start:
        for each in criteria:
            passed, note = await _now(session, each, since)
            found = replace(each, after=passed, note=note)
            findings.append(await _on_copies(session, found, since, start))
    findings += [Finding(criterion, None, passed, note) for criterion, passed, note in proved.findings]
    return Evidence(findings, since, proved)


async def _now(session: Session, finding: Finding, since: FolderChanges | None) -> tuple[bool | None, str]:
    """Whether a criterion holds in the folder as it is."""
    criterion, context = finding.criterion, session.run.context(None, skills_of(session.doc))
    if asked := finding.command:
        try:
            command = session.filled(in_shell(asked))[SHELL]
            context = replace(context, results=results_of(session, command))
        except (OperationFailed, DocumentError) as error:
            return False, str(error)
        if why := _not_granted(session, command, asked):
            return None, f"not run: {why}"
        criterion = {"run": command}

    def result_of(n: int) -> str | None:
        step = session.doc.steps.get(n)
        return session.whole(step) if step and step.state in SUCCEEDED else None

    return await session.run.hooks.criterion(criterion, context, result_of, since)


async def _on_copies(
    session: Session, finding: Finding, since: FolderChanges | None, start: AtStart | None
) -> Finding:
    """The finding with what its command says of copies of the folder, now and at the start of the run."""
    if not finding.command or _uses_results(finding.command):
        return finding
    if since is None:  # nothing has changed since the start
        return replace(finding, before=finding.after) if finding.starts else finding
    context = session.run.context(None, skills_of(session.doc))
    return await start.tried(session.run.id, finding, context) if start else finding
