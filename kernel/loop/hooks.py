"""What the runtime adds to the loops of a run: `Hooks`, and the folder's snapshots, trials and messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kernel.asking.replies import parse_strictly
from kernel.asking.responder import Ask
from kernel.document.model import Document, Note, Step
from kernel.tools.operations import Context
from kernel.tools.tool import Danger, Tool

if TYPE_CHECKING:
    from kernel.loop.criteria import Finding
    from kernel.loop.run_context import RunContext, Session


@dataclass(frozen=True)
class FolderChanges:
    """The changes of the folder since the start of the run."""

    moved: Collection[str] = ()  # the paths that differ
    there: Callable[[], Collection[str]] = tuple  # the files at the start
    before: Callable[[str], str] = lambda path: ""  # the text of a file at the start; "" if it had none
    unknown: str = ""  # why the changes are unknown
    lines: Sequence[str] = ()  # one per changed file
    diffs: Sequence[tuple[str, str]] = ()  # name and diff of each changed text


class AtStart(Protocol):
    """Tries commands on copies of the folder: as it is now, and as it was at the start of a run."""

    async def tried(self, run: str, finding: Finding, context: Context, since: FolderChanges) -> Finding:
        """The finding with what its command says there, as far as that can add to it.

        One of `run` is tried on the start with today's test files, others without them.
        """
        ...


class Snapshots(Protocol):
    """Snapshots of the folder before and after each step that may change it."""

    @property
    def large(self) -> tuple[Path, ...] | None:
        """Files too large for a snapshot; None before the first snapshot."""
        ...

    def why_not(self) -> str:
        """Why nothing in this folder can be restored; "" if it can."""
        ...

    def turn(self, waits: Callable[[], None] = ...) -> AbstractAsyncContextManager[None]:
        """Exclusive use of the folder; `waits` is called once if another run is using it."""
        ...

    def sweep(self) -> Sequence[Path]:
        """Remove what a dead process left; returns what lies there, is none of that, and stays."""
        ...

    async def taken(self, run: str) -> str:
        """Take a snapshot, within a turn; returns its id, "" if that is impossible."""
        ...

    async def evidence(self, run: str, step: int, before: str) -> dict[str, Any]:
        """The evidence of what a step changed since a snapshot; within a turn."""
        ...

    async def since_start(self, run: str) -> FolderChanges | None:
        """The changes since the start of the run; None if no step could change anything."""
        ...

    def at_start(self) -> AbstractAsyncContextManager[AtStart]:
        """Commands on the folder as it was at the start of a run; those of one context share the copies."""
        ...

    async def take_back(self, session: Session) -> list[str]:
        """Undo what an attempt of a loop has changed; one line per file. Raises `UsageError`."""
        ...

    def has(self, tree: str, paths: Collection[str]) -> bool:
        """Whether all of these paths can be restored from a snapshot."""
        ...

    def restore(self, tree: str, paths: Collection[str], absent: Collection[str] = ()) -> None:
        """Restore these paths from a snapshot, and remove the `absent` ones."""
        ...


@dataclass(frozen=True)
class Trial:
    """The result of a draft's test; `passed` is None if only a person or a comparison can decide."""

    unit: str
    passed: bool | None
    note: str


@dataclass(frozen=True)
class Proved:
    """What code shows by itself of an answer."""

    findings: Sequence[tuple[Mapping[str, Any], bool | None, str]] = ()  # criterion, whether it holds, why
    doubts: Sequence[str] = ()  # what of the answer stands in no result
    claims: Sequence[str] = ()  # what it says was tested, and was not
    tests: str = ""  # the command that runs the touched tests
    told: Callable[[bool | None, bool | None, str], str] = lambda before, after, note: ""
    """What the user is told of the touched tests, by whether they held then, hold now, and their output."""
    notes: Sequence[str] = ()  # what else the user is told beside the answer


class Inbox:
    """What is said to a run while it goes on; by default nothing."""

    def listen(self, run_context: RunContext, waiting: Collection[str]) -> list[str]:
        """Apply what answers these waiting loops to their documents; returns the ids of those to wake."""
        return []

    def hear(self, session: Session) -> bool:
        """Add to §1 what a person has said and this loop has not heard; whether there was anything."""
        return False

    def cancelled(self, warn: Callable[[str], None]) -> tuple[str, Callable[[], None]] | None:
        """Who has cancelled the run and why, and what removes the message; None if nobody has."""
        return None


class Hooks:
    """What the runtime adds to a run. Each hook has a default that adds nothing and refuses nothing."""

    # ---- calls -------------------------------------------------------------------------------------------

    def guard(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call."""
        return ()

    def kind(self, tool: Tool, args: Mapping[str, Any]) -> str:
        """The kind of a call for an approval of all of its kind; "" if it is of none."""
        return ""

    def names(self, run: RunContext, tool: Tool, args: Any) -> Mapping[str, str]:
        """The files that a call names, each with the digest of its content: an approval is for these, too."""
        return {}

    def approved(
        self,
        run: RunContext,
        tool: Tool,
        args: Mapping[str, Any],
        effects: Sequence[str],
        dangers: Sequence[Danger],
    ) -> str:
        """Who has approved a call with these effects and dangers before; "" if nobody."""
        return ""

    async def admitted(self, run: RunContext, tool: Tool) -> str:
        """Why a tool may not be used; "" if it may. A changed program is tested again."""
        return ""

    def hidden(self, session: Session) -> Collection[str]:
        """The names of the tools that a loop may not know."""
        return ()

    # ---- what a loop is told -----------------------------------------------------------------------------

    def offered(self, session: Session) -> Iterable[Note]:
        """The notes of §1 with the context that a run finds by itself for a loop."""
        return ()

    def listing(self, run: RunContext) -> str:
        """The listing of the folder."""
        return ""

    def understand(self, session: Session, characters: int) -> tuple[str, str]:
        """What a first message shows of the folder, within so many characters: the names, and the text."""
        return "", ""

    def guide(self, run: RunContext, step: Step) -> str:
        """The guided tool whose instructions the child of a step follows."""
        return step.tool or "task"

    def taught(self, run: RunContext, child: Document) -> str:
        """Take up what the ended child of a step teaches; returns guidance for the loop of that step."""
        return ""

    # ---- replies -----------------------------------------------------------------------------------------

    def parse(self, text: str) -> Mapping[str, Any]:
        """The JSON object in a reply's text; raises `ReplyError`."""
        return parse_strictly(text)

    def keep_prompt(self, run: RunContext, ask: Ask) -> str:
        """Keep what an ask sends to a model, for people; returns why that failed, or ""."""
        return ""

    # ---- decisions and evidence --------------------------------------------------------------------------

    def review(self, session: Session, confidence: str) -> str:
        """Why a loop's plan of this confidence needs approval before DO; "" if it does not."""
        return ""

    def criterion_fault(self, criterion: Mapping[str, Any], last: int, coded: bool) -> str:
        """What is wrong with a criterion of a plan of so many steps, which may be `coded`; "" if nothing."""
        return ""

    async def criterion(
        self,
        criterion: Mapping[str, Any],
        context: Context,
        result_of: Callable[[int], str | None],
        since: FolderChanges | None,
    ) -> tuple[bool | None, str]:
        """Whether a criterion holds in the folder as it is (None: code cannot decide), and what was found.

        `result_of` returns a step's result, or None. `since` is the change of the folder since the start,
        None if no step could change anything.
        """
        return None, "yours to judge"

    async def held(
        self, criterion: Mapping[str, Any], context: Context, since: FolderChanges | None
    ) -> bool | None:
        """Whether a criterion held at the start, before these changes; None if that is not known."""
        return None

    def demand(self, task: str) -> Literal["look", "change", "open"]:
        """Whether a task only asks to be told something, orders a change, or cannot be read."""
        return "open"

    def grounded(self, answer: str, task: str, seen: Sequence[tuple[str, str]], wholly: bool) -> bool:
        """Whether an answer to a task stands in what calls returned: pairs of the call and its result.

        `wholly`: it may say nothing else.
        """
        return False

    def prove(self, session: Session, answer: str, changes: FolderChanges | None) -> Proved:
        """What code shows by itself of a loop's answer; `changes` are those since the start."""
        return Proved()

    async def trials(self, session: Session) -> Sequence[Trial]:
        """Test the drafts of a loop, as evidence for CHECK."""
        return ()
