"""What code shows by itself of an answer that a loop proposes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from kernel.asking.conversation import SHOWN
from kernel.document.escaping import to_json
from kernel.document.model import Step
from kernel.document.texts import reason
from kernel.errors import FractalError
from kernel.loop.hooks import FolderChanges, Proved
from kernel.loop.proof import below
from kernel.loop.run_context import Session
from runtime.proving.claims import claims_tests, unsupported
from runtime.proving.parsing import parses
from runtime.proving.suites import counts, replaced_lines, touched_tests
from runtime.text.shown import shown_name

_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|doctest)\b"
    r"|\b(?:go|cargo|npm|pnpm|yarn|bun|deno|make|mvn|gradle|dotnet|mix|swift|node)\b[^|;&]*\b(?:test|check)s?\b"
)
"""A command that runs tests."""
MOST = 5
"""Maximum names of an answer that are told to stand nowhere."""


def _whole(session: Session, step: Step) -> str:
    """The whole result of a step; what the document has of it if the rest is gone."""
    with suppress(FractalError):
        return session.whole(step)
    return step.result or ""


def _shown(session: Session) -> str:
    """What the first message has shown of the folder."""
    shown = session.doc.note(1, SHOWN)
    with suppress(FractalError):
        return session.run.store.unshelve(shown.source) if shown else ""
    return ""


def prove(session: Session, answer: str, changes: FolderChanges | None) -> Proved:
    """Changed files that do not parse, the touched tests to run, and what of the answer nothing shows."""
    known = changes if changes is not None and not changes.unknown else FolderChanges()
    folder = session.run.folder
    faults = [({"parses": fault.path}, False, str(fault)) for fault in parses(folder, known)]
    tests = touched_tests(folder, known)
    steps = list(below(session, session.doc))
    seen = [_whole(session, each) for each in steps] + [to_json(dict(each.args or {})) for each in steps]
    seen += [note.text for note in session.doc.section(1).notes] + [_shown(session)]
    seen += [*known.lines, *(f"{name}\n{diff}" for name, diff in known.diffs)]
    strange = unsupported(answer, session.doc.task, seen)
    doubts = [f"nothing that was looked at shows: {', '.join(strange[:MOST])}"] if strange else []
    ran = [str((each.args or {}).get("command", "")) for each in steps if each.state == "done"]
    ran += [session.doc.text(2, "success criteria"), tests]
    untested = claims_tests(answer) and not any(map(_TESTS.search, ran))
    claims = ["the answer says that tests pass, and no command has run tests"] if untested else []
    return Proved(faults, doubts, claims, tests, told, _notes(replaced_lines(folder, known)))


def _notes(replaced: Mapping[str, int]) -> list[str]:
    """What the user is told of tests that no longer say what they said: those of before may fail now."""
    if not replaced:
        return []
    named = [f"{count} in {shown_name(path)}" for path, count in list(replaced.items())[:MOST]]
    more = [f"more in {len(replaced) - MOST} other files"] if len(replaced) > MOST else []
    return [f"(lines of earlier tests that are changed or gone: {', '.join([*named, *more])})"]


def told(before: bool | None, after: bool | None, output: str) -> str:
    """What the user is told of the touched tests."""
    if after is None:
        lines = [line for line in output.splitlines() if "Error" in line]
        cause = (lines[-1] if lines else reason(output)).strip()[:200]
        failed = "fail, as they did at the start" if before is False else "were not run"
        return f"(touched tests {failed}: {cause})"
    counted = counts(output)
    return f"(touched tests: {counted})" if counted else "(touched tests pass)"
