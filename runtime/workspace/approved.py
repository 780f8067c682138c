"""Approvals for more than one call: what a person can be offered, and the calls kept in `fractal.yaml`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kernel import disk
from kernel.document.escaping import to_json
from kernel.document.model import Step
from kernel.errors import ConfigurationError
from runtime import locks, user_files
from runtime.secrets.redaction import redact
from runtime.workspace import trust
from runtime.workspace.deciders import ALWAYS, SAME_KIND, serious
from runtime.workspace.inserting import line_of, with_call
from runtime.workspace.named import MORE, TOO_MANY
from runtime.workspace.settings import read
from runtime.workspace.workspace import Workspace, settings_files

LONGEST = 2_000
"""Characters of a call that is kept in `fractal.yaml`."""
PATIENCE = 10.0
"""Seconds to wait for another process that adds a call."""


class Offers(NamedTuple):
    """What can be approved beyond the waiting steps themselves, and why not."""

    kinds: list[str]
    no_kind: str
    no_always: str

    def refusal(self, scope: str) -> str:
        """Why this scope is not offered; "" if it is."""
        reasons = {SAME_KIND: self.no_kind, ALWAYS: self.no_always}
        return reasons.get(scope, f"{scope}: there is no such scope")


def relative(workspace: Workspace, folder: Path) -> str:
    """A folder that a run acts in, as seen from the folder of the settings."""
    return os.path.relpath(folder, settings_files(workspace.root)[-1].parent)


def offers(workspace: Workspace, folder: Path, steps: Iterable[Step]) -> Offers:
    """What a person can approve of the steps that wait in a run that acts in `folder`."""
    waiting = [step for step in steps if step.state == "waiting"]
    if not waiting:
        why = "this is no approval of a step"
        return Offers([], why, why)
    if dangers := serious(waiting):
        why = f"a serious danger is approved one at a time: {dangers[0]}"
        return Offers([], why, why)
    kinds = [str(step.evidence["kind"]) for step in waiting if step.evidence.get("kind")]
    no_kind = "" if len(kinds) == len(waiting) else "a command of several parts, or with code, is of no kind"
    no_always = next(filter(None, (_why_not_kept(workspace, folder, each) for each in waiting)), "")
    return Offers(kinds, no_kind, no_always)


def _why_not_kept(workspace: Workspace, folder: Path, step: Step) -> str:
    text = to_json(dict(step.args or {}))
    if step.evidence.get("results"):
        return "the call depends on results of this run"
    names = step.evidence.get("names", {})
    if any(name.startswith(MORE) or mark.startswith(TOO_MANY) for name, mark in names.items()):
        return "the call names too many files"
    if step.whole or len(text) > LONGEST:
        return f"the call has more than {LONGEST:,} characters, or a secret"
    if redact(text) != text:
        return "the call contains a secret"
    path, call = settings_files(workspace.root)[-1], _entry(step, relative(workspace, folder))
    if with_call(_text(path), call) is None:
        return f"{path} cannot be changed without a loss; add {line_of(call)} to its `approved`"
    return ""


def keep(workspace: Workspace, folder: Path, steps: Iterable[Step]) -> Path:
    """Write the calls of the waiting steps, which `offers` has looked at, to `fractal.yaml`; returns it."""
    path, lock = settings_files(workspace.root)[-1], workspace.state / "approved.lock"
    with locks.lock(lock, PATIENCE, lambda: ConfigurationError(f"{lock} is held by another process")):
        for step in steps:
            if step.state == "waiting":
                call = _entry(step, relative(workspace, folder))
                _add(path, workspace.root, call)
                trust.written(workspace.root)
                trust.accept([trust.approved(workspace.root, call)])
    return path


def _entry(step: Step, here: str) -> dict[str, Any]:
    call: dict[str, Any] = {"tool": step.tool, "args": dict(step.args or {})}
    effects, dangers = step.evidence.get("approval"), step.evidence.get("dangers")
    files = step.evidence.get("names")
    call |= {"files": dict(files)} if files else {}
    call |= {"effects": list(effects)} if effects else {}
    call |= {"dangers": list(dangers)} if dangers else {}
    return call | ({"folder": here} if here != "." else {})


def _add(path: Path, root: Path, call: Mapping[str, Any]) -> None:
    before = _text(path)
    if call in (read(path, root).get("approved") or ()):
        return

    def unchanged() -> None:  # by an editor
        if _text(path) != before:
            raise ConfigurationError(f"{path}: changed meanwhile; try again")

    new = with_call(before, call)
    if new is None:
        raise ConfigurationError(f"{path}: add {line_of(call)} to its `approved`")
    try:
        disk.put(path, new.encode(), guard=unchanged)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


def _text(path: Path) -> str:
    return user_files.text_of(path) if path.exists() else ""
