"""What the runtime adds to a run: danger rules, memory, the folder, oversight, and the proof of an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from kernel import Hooks
from kernel.asking.responder import Ask
from kernel.document.model import Document, Note, Step
from kernel.loop.hooks import FolderChanges, Proved, Trial
from kernel.loop.run_context import RunContext, Session
from kernel.tools.tool import Danger, Tool
from runtime.api.dreaming import dreamed
from runtime.api.knowledge import remembered
from runtime.evolution.sample_tests import drafted, trials
from runtime.models.micro.checks import CHECKS
from runtime.proving.criteria import Check, check_criterion, criterion_fault, held_at_the_start
from runtime.proving.proof import prove
from runtime.safety.guard import Guard
from runtime.sandbox.context import OperationContext
from runtime.text.demand import demand
from runtime.text.grounding import grounded
from runtime.text.json_reader import read_reply
from runtime.workspace.offered_context import listing, offered_context, understood
from runtime.workspace.prompts import keep_prompt
from runtime.workspace.standing import approved_before, files_of

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal


class RunHooks(Hooks):
    """The hooks of the runs of a `Fractal`, with the danger rules for the folder that a run acts in."""

    def __init__(self, fractal: Fractal, rules: Guard) -> None:
        self.fractal = fractal
        self.rules = rules
        self.checks: Mapping[str, Check] = {
            **CHECKS,
            "remembered": partial(remembered, fractal),
            "dreamed": partial(dreamed, fractal),
        }
        self._keeps_prompts = fractal.config.keep_prompts

    def guard(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call by the rules; raises `DangerRules`."""
        return self.rules(tool, args)

    def kind(self, tool: Tool, args: Mapping[str, Any]) -> str:
        """The kind of a call by the rules."""
        return self.rules.kind(tool, args)

    def names(self, run: RunContext, tool: Tool, args: Any) -> Mapping[str, str]:
        """The files and folders that a call names, each with the digest of its content."""
        return files_of(run, tool, args)

    def approved(
        self,
        run: RunContext,
        tool: Tool,
        args: Mapping[str, Any],
        effects: Sequence[str],
        dangers: Sequence[Danger],
    ) -> str:
        """Who approved this call before, by a rule for the exact call, or for its kind in this run."""
        return approved_before(run, tool, args, effects, dangers)

    async def admitted(self, run: RunContext, tool: Tool) -> str:
        """Why a tool may not be used; a program without a record is tested now."""
        return await self.fractal.workshop.records.admitted(run, tool)

    def hidden(self, session: Session) -> Collection[str]:
        """The tools that this agent does not know."""
        return self.fractal.hidden(session.run, session.doc)

    def offered(self, session: Session) -> Iterable[Note]:
        """The folder, the small files that the task names, AGENTS.md, and what memory knows."""
        return offered_context(session.run, self.fractal.notes_for, self.fractal.guidance, session.doc)

    def listing(self, run: RunContext) -> str:
        """The listing of the folder, without what is protected."""
        return listing(run.folder, run.protected)

    def understand(self, session: Session, characters: int) -> tuple[str, str]:
        """What the first message shows of the folder."""
        return understood(session.run, session.doc, characters)

    def guide(self, run: RunContext, step: Step) -> str:
        """The guided tool of a step; what is escalated has one by its words."""
        return self.fractal.guide(run, step)

    def taught(self, run: RunContext, child: Document) -> str:
        """Record what oversight taught."""
        return self.fractal.taught(run, child)

    def parse(self, text: str) -> Mapping[str, Any]:
        """The JSON object in a reply, also in a fence or beside prose."""
        return read_reply(text)

    def keep_prompt(self, run: RunContext, ask: Ask) -> str:
        """Write the prompt beside the run; after a failure, which is told once, no more are kept."""
        if not self._keeps_prompts:
            return ""
        problem = keep_prompt(run.artifacts.parent, ask)
        self._keeps_prompts = not problem
        return problem

    def review(self, session: Session, confidence: str) -> str:
        """Why oversight or a person reviews a plan."""
        return self.fractal.why_review(session, confidence)

    def criterion_fault(self, criterion: Mapping[str, Any], last: int, coded: bool) -> str:
        """What is wrong with a criterion of a plan."""
        return criterion_fault(criterion, last, coded, self.checks)

    async def criterion(
        self,
        criterion: Mapping[str, Any],
        context: OperationContext,
        result_of: Callable[[int], str | None],
        since: FolderChanges | None,
    ) -> tuple[bool | None, str]:
        """Whether a criterion holds in the folder as it is."""
        return await check_criterion(criterion, context, result_of, since, self.checks)

    async def held(
        self, criterion: Mapping[str, Any], context: OperationContext, since: FolderChanges | None
    ) -> bool | None:
        """Whether a criterion held at the start of the run."""
        return await held_at_the_start(criterion, context, since, self.checks)

    def demand(self, task: str) -> Literal["look", "change", "open"]:
        """What a task demands, by its words."""
        return demand(task, systems=self.fractal.systems)

    def grounded(self, answer: str, task: str, seen: Sequence[tuple[str, str]], wholly: bool) -> bool:
        """Whether an answer stands in what calls returned."""
        return grounded(answer, task, seen, wholly)

    def prove(self, session: Session, answer: str, changes: FolderChanges | None) -> Proved:
        """Whether what changed parses, its tests, and what the answer claims."""
        return prove(session, answer, changes)

    async def trials(self, session: Session) -> Sequence[Trial]:
        """The trials of a loop's drafts; those of a design that a worker has requested are a round of it."""
        fractal, by_rules = self.fractal, partial(trials, self.rules.program, self.rules.connects)
        designs = session.doc.meta.type == "request-design"
        known = fractal.config.remember and (designs or (session.root and fractal.messages_folder.is_dir()))
        if not known or not drafted(session):
            return await by_rules(session)
        from runtime.nervous import design

        if designs:
            return await design.tested(fractal.nerves.messages, fractal.config.agent, session, by_rules)
        return await design.left(fractal.nerves.messages, session, by_rules)
