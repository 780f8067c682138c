"""The same task again (`--reuse`): the result of an accepted run with the same task, inputs and instructions.

It needs no cache: the earlier run's documents record the task, the inputs and the instructions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from kernel.asking.prompt import found_by_itself
from kernel.document.frontmatter import peek
from kernel.document.model import Document, root_id
from kernel.errors import DocumentError
from kernel.loop.run_context import RunContext, Session
from kernel.store.files import FileStore
from kernel.tools.tool import Catalogue
from runtime.workspace.edits import find
from runtime.workspace.inbox import Inbox
from runtime.workspace.workspace import Workspace, moment


def reusable(
    workspace: Workspace,
    task: str,
    context: Sequence[tuple[str, str]],
    run_context_of: Callable[[str], RunContext],
    refused: Callable[[str], bool] = lambda run: False,
) -> Document | None:
    """The root of the newest run whose result can be taken for this task; None where none can.

    It was accepted, only read, was given the same, and neither the instructions that were read for it, nor a
    file of the folder, nor a person's hand in its documents, has changed since. Once a person called a result
    for this task bad, only what they called good since is taken; `refused` tells what memory knows of that.
    """
    runs = workspace.run_ids()
    said = {run: verdict for run in runs if (verdict := _verdict(workspace.runs / run))}
    bad = (run for run, (good, _) in said.items() if not good)
    refused_at = max((said[run][1] for run in bad if _asked(workspace, run, task, context)), default="")
    for run in runs:
        good, at = said.get(run, (False, ""))
        if refused_at and not (good and at > refused_at):
            continue
        if peek(workspace.runs / run / f"{root_id(run)}.md").get("status") != "complete":
            continue
        root = _asked(workspace, run, task, context)
        if root is None or refused(run):
            continue
        with suppress(DocumentError):  # another run may be complete
            if _holds(run_context_of(run), root, (workspace.root, workspace.state)):
                return root
    return None


def _verdict(folder: Path) -> tuple[bool, str] | None:
    """A person's last verdict on a run and when they gave it; None without one."""
    given = [message for _, message in Inbox(folder).messages(("feedback",))]
    return (bool(given[-1].get("good")), str(given[-1].get("at", ""))) if given else None


def _asked(workspace: Workspace, run: str, task: str, context: Sequence[tuple[str, str]]) -> Document | None:
    """The root of a run that was asked for the same with the same context, else None."""
    with suppress(DocumentError):
        root = FileStore(workspace.runs / run).peek(root_id(run))
        if root.text(1, "task") == task and _context_of(root) == list(context):
            return root
    return None


def _context_of(root: Document) -> list[tuple[str, str]]:
    notes = root.section(1).notes
    used = [n for n in notes if n.key in ("context", "answer", "guidance") and not found_by_itself(n.source)]
    return [(n.source, n.text) for n in used]


def _holds(run_context: RunContext, root: Document, own: Sequence[Path]) -> bool:
    documents = [run_context.store.load(loop) for loop in run_context.store.list()]
    effects = _effects(documents, run_context.catalogue)
    if root.meta.type != "task" or effects - {"read"}:
        return False
    if any(find(Session(run_context, document), redo=True) for document in documents):
        return False
    looked = effects or any(found_by_itself(n.source) for n in root.section(1).notes)
    began = moment(root.meta.created)
    return not looked or (began is not None and not changed_since(run_context.folder, began, own))


def _effects(documents: Iterable[Document], catalogue: Catalogue) -> set[str]:
    """The possible effects of a run's steps; a step of a removed tool may have any effect."""
    effects: set[str] = set()
    for step in (step for document in documents for step in document.steps.values()):
        tool = catalogue.tools.get(step.tool)
        if step.tool and tool is None:
            effects.add("write")
        elif tool is not None and not tool.guided:
            effects |= tool.effects_of(step.args)
    return effects


def changed_since(folder: Path, began: datetime, own: Sequence[Path]) -> bool:
    """Whether something in the folder was written, made or removed after a run began, or just now."""
    moment = began.timestamp()
    try:
        return any(changed >= moment for changed in _times(folder, own))
    except OSError:  # removed or unreadable
        return True


def _times(folder: Path, own: Sequence[Path]) -> Iterator[float]:
    """When each file of the folder was changed last, and each folder's names, except `own`."""

    def fail(error: OSError) -> None:
        if not isinstance(error, PermissionError):  # unreadable for the run too
            raise error

    for place, names, files in os.walk(folder, onerror=fail):
        parent = Path(place)
        names[:] = [name for name in names if parent / name not in own and name != ".git"]
        yield parent.stat().st_mtime
        for name in files:
            yield os.lstat(parent / name).st_mtime
