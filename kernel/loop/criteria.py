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
from kernel.errors import (
    DocumentError,
    FractalError,
    OperationFailed,
    ReplyError,
)
from kernel.loop.approval import APPROVED, CHECKS_WAIT, unapproved
from kernel.loop.hooks import AtStart, FolderChanges, Proved
from kernel.loop.run_context import Session, results_of, skills_of

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
    since = await _since_it_began(session)
    before = [
        None if held and "run" in criterion else await _at_the_start(session, criterion, since)
        for criterion in success
    ]
    if fails and session.doc.meta.attempt == 1 and success and all(before):
        raise ReplyError(
            "every success criterion holds already; at least one must fail now and hold once done"
        )
    return before


async def _since_it_began(session: Session) -> FolderChanges | None:
    """What may have changed since the loop began; None where the folder is as it began.

    The run begins with its root, in which a turn, or a step that an edit plans again, may have changed
    something. A child begins in the folder as it finds it.
    """
    return await since_the_start(session) if session.root or session.doc.meta.attempt > 1 else None


async def late_baseline(session: Session) -> None:
    """Try the commands that had to wait for an approval, before the first step."""
    if any(step.state not in ("planned", "waiting") for step in session.doc.attempted):
        return
    known = listed(session.doc)
    since = await _since_it_began(session)
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
    bash, decided = session.catalogue.tools.get("bash"), session.doc.note(2, "checks")
    if bash is None or (decided and decided.source == shown_checks(session.doc)):
        return ""
    needs = [each for each in checks_of(session.doc) if any(unapproved(session.run, bash, {"command": each}))]
    return f"{CHECKS_WAIT} [{fingerprint(checks_of(session.doc))}]" if needs else ""


def shown_checks(document: Document) -> str:
    """The source of the note `checks` of §2: which commands the person saw who decided about them."""
    return f"commands {fingerprint(checks_of(document))}"


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
    decided = session.doc.note(2, "checks")
    approved = decided and decided.text.startswith(APPROVED) and decided.source == shown_checks(session.doc)
    if bash is None or (approved and (asked or command) in checks_of(session.doc)):
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
        return session.whole(step) if step and step.succeeded else None

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
    return await start.tried(session.run.id, finding, context, since) if start else finding
