"""Fractal from Python: start, resume, answer and read runs. The command line uses it too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel import Waiting
from kernel.asking.prompt import Prompt
from kernel.asking.responder import Ladder
from kernel.document.model import ENDED, Document, Step, root_id
from kernel.errors import Exit, FractalError, StorageError, UsageError
from kernel.events import Event, Listener, now, silent
from kernel.loop.advance import Outcome, next_prompt
from kernel.loop.engine import Engine
from kernel.loop.run_context import Policy, RunContext, Session, overseen
from kernel.store.files import FileStore
from kernel.tools.tool import Tool
from runtime import contained, pinned
from runtime.api import discovering, dreaming, messaging, worktrees
from runtime.api.building import builds_what_it_lacked
from runtime.api.calling import CALL, call_document, callable_tool
from runtime.api.run_context import move_to, run_context_of
from runtime.catalogue.catalogue import Catalogue, Source
from runtime.catalogue.plugged import operations
from runtime.evolution.workshop import Workshop
from runtime.mcp.client.servers import Servers
from runtime.memory.run_memory import RunMemory
from runtime.models.ladder import build, rungs
from runtime.models.mailbox import withdraw
from runtime.own import runs_write_in
from runtime.reflexes.dreaming import KIND as DREAM
from runtime.sandbox.changes import Change
from runtime.sandbox.hooks import at_end
from runtime.sandbox.process import run_to_end
from runtime.sandbox.sandbox import Sandbox
from runtime.sandbox.snapshot import Snapshots
from runtime.secrets.redaction import redact
from runtime.workspace import applying, edits, trust, undo
from runtime.workspace import settings as settings_of
from runtime.workspace.answering import KINDS
from runtime.workspace.approved import relative
from runtime.workspace.archive import put_away
from runtime.workspace.concurrency import one_of_many
from runtime.workspace.deciders import PROGRAM, Decider
from runtime.workspace.found import Guidance
from runtime.workspace.inbox import TOO_LATE, Inbox, Person, Said, ask, drop, leave, unheard, vetoed
from runtime.workspace.new_run import first_document, prior, shelved
from runtime.workspace.resume import active_before, assumed, begin_session, go_back, raised
from runtime.workspace.reuse import reusable
from runtime.workspace.runs import Reader, RunResult, event_data, open_question, result_of, unfinished
from runtime.workspace.trust import asks_for, lowering
from runtime.workspace.workspace import Workspace, run_lock, shipped_system
from runtime.workspace.worktrees import Worktree, sweep

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.memory.tasks.methods import Files
    from runtime.nervous.decisions import Decision
    from runtime.nervous.discovery import Discovery
    from runtime.nervous.growth import Month
    from runtime.nervous.lifeforce import Lifeforce
    from runtime.nervous.messages import Message
    from runtime.nervous.nerves import Nerves
    from runtime.nervous.queue import Priority, Queued
    from runtime.nervous.waiting import Waits

HOOKS_UNKNOWN = "the process died after the hooks at the end were begun; they are not run again"
MOST_LEFT_OUT = 3
"""Warnings at the start of a run about skills that are not used."""


class Fractal(Reader):
    """A workspace, its settings and its ladder. Only the settings are read before they are needed."""

    def __init__(
        self,
        folder: str | Path = ".",
        *,
        settings: Mapping[str, Any] | None = None,
        ladder: Ladder | None = None,
        on_event: Listener = silent,
        person: Person | None = None,
        trusted: bool = False,
    ) -> None:
        """`person` is asked while a run waits; `trusted` skips the trust check of the folder."""
        super().__init__(Workspace.find(Path(folder), shipped_system()))
        runs_write_in(self.workspace.folder)
        self.config, self.sources = settings_of.load(self.workspace.root, settings or {})
        self.workshop = Workshop(self.workspace, self.config, on_event)
        self.given = self._ladder = ladder
        self.listener = on_event
        self._person = person
        self._trusted = trusted
        if trusted:
            contained.allow(self.workspace.state)
        self._passed = False
        self.pins: trust.Pins = {}
        """What runs are held to, of the instructions that this folder brings along."""
        self._acts_in = self.workspace.folder

    @property
    def ladder(self) -> Ladder:
        """The rungs, cheapest first; raises `Untrusted`."""
        self.refuse_untrusted()
        if self._ladder is None:
            workspace = self.workspace
            with pinned.held(self.pins):
                self._ladder = build(self.config, self.systems, workspace.state, self.memory, workspace.root)
        return self._ladder

    def _ladder_of(self, type: str) -> Ladder:
        """The rungs for a root of that type; memory itself plans a dream. Raises for a wrong setting."""
        if self.config.otel:
            from runtime.telemetry import tracing

            tracing.require()
        return dreaming.ladder_of(self) if type == DREAM else self.ladder

    @cached_property
    def memory(self) -> RunMemory:
        """The memory of this workspace."""
        lowered = lowering(self.workspace.root, self.config, self.sources)
        if {"embedder", "embedder_folder", "store"} & set(lowered):
            self.refuse_untrusted()  # the embedder is loaded, and memory lies, where the folder says
        memory = RunMemory(self.workspace, self.config, self.systems, self._files)
        memory.ladder = lambda: tuple(self.ladder)
        return memory

    @cached_property
    def nerves(self) -> Nerves:
        """The messages between worker, oversight and human."""
        from runtime.nervous.nerves import Nerves

        return Nerves(self.memory, self.messages_folder, self.systems, self.config)

    @property
    def messages_folder(self) -> Path:
        """Where the messages lie as markdown; it exists once there is one."""
        return self.workspace.state / "messages"

    @cached_property
    def discovery(self) -> Discovery:
        """Which tools the agents of this workspace know."""
        from runtime.nervous.discovery import Discovery

        return Discovery(lambda: self.nerves.messages, self.systems, self.config, self.workshop.journal)

    def hidden(self, run_context: RunContext, document: Document) -> Collection[str]:
        """The names of the tools that a loop may not know."""
        if self.config.discovery == "open" and not (overseen(document) or self._revoked()):
            return ()
        return self.discovery.hidden(run_context.catalogue.tools, document)

    def _revoked(self) -> Collection[str]:
        """The names of the tools that were taken from this agent; where there is no message, none were."""
        return self.discovery.revoked() if self.messages_folder.is_dir() else ()

    def guide(self, run_context: RunContext, step: Step) -> str:
        """The guided tool whose instructions the child of a step follows."""
        if step.tool != "escalate":
            return step.tool or "task"
        from runtime.nervous.escalation import guide

        return guide(run_context.catalogue.tools, step.what)

    def taught(self, run_context: RunContext, child: Document) -> str:
        """Record what the ended child of a step teaches; returns guidance for the loop of that step."""
        tool = run_context.catalogue.tools.get(child.meta.type)
        if tool is None or not tool.oversight or not self.config.remember:
            return ""
        from runtime.nervous.escalation import settle

        return settle(self.discovery, run_context, child)

    def notes_for(self, document: Document) -> Sequence[tuple[str, str]]:
        """What a loop is shown of memory; a loop of oversight, of what was read."""
        if overseen(document) and self.messages_folder.is_dir():
            return self.nerves.staging.notes(document)
        return self.memory.notes_for(document)

    def known(self, agent: str = "") -> list[Tool]:
        """The tools that an agent (default: the one of the settings) knows."""
        return discovering.known(self, self.catalogue().tools, agent)

    def grants(self, agent: str = "") -> list[Message]:
        """The grants and revocations that hold, of one agent or of all, oldest first."""
        return self.discovery.held(agent)

    def grant(self, tool: str, agent: str = "", *, why: str = "", by: Decider = PROGRAM) -> bool:
        """Let an agent know a tool; False if it does already. Raises `UsageError` for an unknown tool."""
        return discovering.grant(self, tool, agent, by, why) is not None

    def revoke(self, tool: str, agent: str = "", *, why: str = "", by: Decider = PROGRAM) -> None:
        """Take a tool from an agent, at once. Raises `UsageError` if the agent does not know it."""
        discovering.revoke(self, tool, agent, by, why)

    def why_review(self, session: Session, confidence: str) -> str:
        """Why a loop's plan of this confidence needs approval before DO; "" if it does not."""
        if self.config.review_on(session.run.ladder) == "off":
            return ""  # nothing of the nervous system is imported
        return self.nerves.why_review(session, confidence)

    def review(self, run: str = "") -> list[Waits]:
        """What waits for a decision, over all runs or in one: plans, calls and questions."""
        from runtime.nervous.waiting import waiting

        return waiting(self, lambda run: self.nerves.log.decisions(run=run), self.find(run) if run else "")

    def decisions(self, task_type: str = "") -> list[Decision]:
        """What workers chose, what oversight and humans said, and what came of it; oldest first."""
        return self.nerves.log.decisions(task_type)

    def _files(self) -> Files:
        from runtime.reflexes.trial import Trial

        return Trial(self.systems)

    @property
    def brain(self) -> Brain:
        """The memory, loaded."""
        return self.memory.brain

    @property
    def systems(self) -> tuple[Path, ...]:
        """The folders of instructions, the nearest first; a bare workspace has only its own."""
        return self.workspace.systems if self.config.shipped else self.workspace.systems[:1]

    @property
    def skills(self) -> list[Path]:
        """The configured folders of skills, and the skills that were found and are allowed."""
        pins: trust.Pins = {}
        found = trust.found_skills(self.workspace, self.config, self._acts_in, pins)
        usable = [(skill, items) for skill, items in found if not skill.problem]
        allowed = [skill.path for skill, items in usable if not self._waiting(items)]
        if self._holds:
            used = (str(each) for path in allowed for each in (path, path.resolve()))
            self.pins |= {each: pins[each] for each in used}
        return list(dict.fromkeys([*self._named_skills(), *allowed]))

    @property
    def _holds(self) -> bool:
        """Whether what is allowed here counts as it was written then."""
        return not (self._trusted or trust.everything())

    def _named_skills(self) -> list[Path]:
        """The configured folders of skills; relative ones are relative to the settings file."""
        paths = (self.workspace.root / Path(name).expanduser() for name in self.config.skills)
        return [Path(os.path.normpath(place)) for place in paths]

    def guidance(self) -> Guidance | None:
        """The file of guidance for models (AGENTS.md), if there is one and it is allowed."""
        guidance, items = trust.found_guidance(self.workspace, self.config, self._acts_in)
        return None if self._waiting(items) else guidance

    def left_out(self) -> Iterator[str]:
        """What this folder brings along, and why it is not used."""
        waits = "not used until you allow it; look at it, then: fractal trust"
        for skill, items in trust.found_skills(self.workspace, self.config, self._acts_in, {}):
            if problem := skill.problem or (waits if self._waiting(items) else ""):
                yield f"skill {skill.path}: {problem}"
        for item in self._waiting(trust.found_guidance(self.workspace, self.config, self._acts_in)[1]):
            yield f"{item.name}: {waits}"

    def catalogue(self, drafts: Path | None = None, source: Source | None = None) -> Catalogue:
        """The tools and operations, with the `drafts` of a run that builds some.

        `source` returns the tools of MCP servers; by default the cached ones. A bare one has no plugins.
        """
        sources = [*([operations] if self.config.shipped else []), source or self.servers().tools]
        return Catalogue(self.systems, drafts=drafts, skills=self.skills, sources=sources)

    def servers(self, warn: Callable[[str], None] = lambda text: None) -> Servers:
        """The MCP servers of this workspace, for one event loop."""
        config = self.config
        sandbox = Sandbox(config.sandbox, config.network, config.limits())
        return Servers(self.workspace, warn, sandbox=sandbox)

    def untrusted(self, *, optional: bool = True) -> list[trust.Item]:
        """What the folder's files ask for and the user has not allowed yet.

        Without `optional`, only what a run cannot do without.
        """
        return self._waiting(asks_for(self.workspace, self.config, self.sources, optional=optional))

    def to_allow(self) -> list[trust.Item]:
        """What a run has to ask for; skills and guidance of the folder only where a model would see them."""
        return self.untrusted(optional=self.has_model)

    @property
    def has_model(self) -> bool:
        """Whether the ladder has a model, beside code and a person. The ladder is not built for this."""
        if self.given is not None:
            return any(rung.tier in ("worker", "oversight") for rung in self.given)
        return any(rung.model not in ("reflex", "person") for rung in rungs(self.config))

    def _waiting(self, items: Iterable[trust.Item]) -> list[trust.Item]:
        return trust.waiting(() if self._trusted else items)

    def refuse_untrusted(self, *, again: bool = False) -> None:
        """Raise `Untrusted` if something is not allowed yet; what has passed is checked `again` only."""
        if self._passed and not again:
            return
        pins: trust.Pins = {}
        asked = asks_for(self.workspace, self.config, self.sources, optional=False, pins=pins)
        if items := self._waiting(asked):
            raise trust.Untrusted(items)
        self._passed, self.pins = True, pins if self._holds else {}

    def refuse_other_hooks(self, place: Path, of: Path) -> None:
        """Raise `Untrusted` or `UsageError` if files of hooks are not as allowed where a run is to work.

        That is `place`: a worktree `of` a folder, or the folder itself.
        """
        if "hooks" in trust.lowering(self.workspace.root, self.config, self.sources):
            workspace = replace(self.workspace, folder=of)
            items = self._waiting(trust.hook_files(workspace, self.config, place))
            if items and place == of:
                raise trust.Untrusted(items)
            for item in items:
                raise UsageError(f"{item.name} is not as you have allowed it in the worktree {place}")

    @builds_what_it_lacked
    @one_of_many
    async def run(
        self,
        task: str,
        *,
        context: Sequence[tuple[str, str]] = (),
        after: str | None = None,
        plan_only: bool = False,
        yes: bool = False,
        tool: str = "",
        reuse: bool = False,
        group: str = "",
        thread: str = "",
        worktree: bool = False,
        trace: str = "",
        id: str = "",
        within: str = "",
    ) -> RunResult:
        """Start a run. `context` holds pairs of source and text; `after` is an earlier run to follow up.

        With a `worktree` it works in a folder of its own, until `apply` brings its changes to this one.

        The text of a guided `tool` guides the root loop. With `reuse`, the result of an earlier run that only
        read is returned if its task, inputs and instructions are the same. Runs with the same `group` are
        attempts at one task, which are compared. Runs with the same `thread` are one conversation. `trace` is
        the caller's W3C `traceparent`, kept in META. `id` is one that the caller got of `Workspace.new_run`.
        A run that another one started, which `within` names, is never taken for the newest.
        """
        if not task.strip():
            raise UsageError('the task is empty; say what is to be done: fractal run "…"')
        earlier = prior(self.root_document(self.find(after))) if after else []
        if reuse and not (tool or after or plan_only) and (reused := self._reused(task, context)):
            return reused
        ladder = self._ladder_of(tool)  # raises for a wrong setting, before anything is written
        run = id or self.workspace.new_run()
        with self.workspace.claimed(run) as folder, run_lock(folder), self._reserved(run) as lifeforce:
            run_context, servers = run_context_of(self, run, ladder)
            known = run_context.catalogue.without(self._revoked())
            if tool and tool != DREAM and not known.guided(tool):
                raise UsageError(f"{tool} guides no loop" if tool in known.tools else known.unknown(tool))
            pieces = [*earlier, *shelved(run_context.store, context)]
            made = await run_to_end(partial(worktrees.make, self, run)) if worktree else None
            if made:
                move_to(self, run_context, made.folder, made)
            bounds = replace(self.config.bounds(), lifeforce=lifeforce)
            document = first_document(run, task, pieces, run_context.folder, bounds, tool)
            extra: dict[str, Any] = self._meta_names(group, thread)
            extra |= {"plan_only": True} if plan_only else {}
            extra |= {"within": within} if within else {}
            extra |= {"worktree": made.noted} if made else {}
            extra |= {"trace": found} if (found := self._trace(document, trace)) else {}
            if self.sources["skills"] == "flag":  # they are used again when the run is resumed
                extra["with_skills"] = [str(place) for place in self._named_skills()]
            document = document.having(extra=extra)
            run_context.store.save(document)
            self._emit_start(document)
            policy = self._policy(plan_only=plan_only, yes=yes)
            return await self._drive(run_context, folder, servers, policy)

    @one_of_many
    async def call(self, tool: str, args: Mapping[str, Any], *, yes: bool = False) -> RunResult:
        """Call a tool that has code, as a run of this one step: no model is asked.

        Approvals, the sandbox, `undo` and `resume` apply as to any other run.
        """
        run = self.workspace.new_run()
        with self.workspace.claimed(run) as folder, run_lock(folder), self._reserved(run) as lifeforce:
            run_context, servers = run_context_of(self, run, self._ladder_of(CALL))
            bounds = replace(self.config.bounds(), lifeforce=lifeforce)
            document = call_document(run_context, callable_tool(run_context, tool), args, bounds)
            document = document.having(extra=self._meta_names("", ""))
            run_context.store.save(document)
            self._emit_start(document)
            return await self._drive(run_context, folder, servers, self._policy(yes=yes))

    @builds_what_it_lacked
    @one_of_many
    async def resume(
        self,
        run: str | None = None,
        *,
        assume: str | Sequence[str] = (),
        yes: bool = False,
        redo: bool = False,
    ) -> RunResult:
        """Resume a run, by default the one of `to_resume`.

        A person's edits of its documents are reported first, by `stale` events, and what depends on them is
        done again; with `redo` also the steps whose instructions have changed. `assume` decides about steps
        that may have happened: `rerun` or `done`, of one step `3=done`, below the root `LOOP:3=done`.
        """
        run = self.find(run) if run else self.to_resume()
        folder = self.workspace.runs / run
        with run_lock(folder), ExitStack() as at_work:
            root = self.root_document(run)
            made, place = Worktree.owned(self.workspace, root), self.folder_of(root)
            self._acts_in = made.of if made else place
            skills = (*self.config.skills, *root.meta.extra.get("with_skills", ()))
            self.config = self.config.model_copy(update={"skills": tuple(dict.fromkeys(skills))})
            self._as(root)
            lifeforce = at_work.enter_context(self._reserved(run))
            limits = raised(root, replace(self.config.bounds(), lifeforce=lifeforce), flags=self._flags())
            earlier, seconds = active_before(folder, root), float(limits["seconds"])
            ladder = self._ladder_of(root.meta.type)
            run_context, servers = run_context_of(self, run, ladder, earlier=earlier, seconds=seconds)
            move_to(self, run_context, place, made)
            run_context.store.sweep()
            policy = self._policy(assume=assumed(root_id(run), assume), yes=yes)
            run_context.policy = policy
            go_back(run_context, root, limits, redo=redo)
            root = self.root_document(run)
            if root.ended:
                return result_of(root, folder / f"{root.meta.id}.md", Waiting("nothing"))
            begin_session(run_context, root)
            self._emit_start(root)
            return await self._drive(run_context, folder, servers, policy)

    def to_resume(self) -> str:
        """The run that `resume` takes: the one that a person has edited or decided last.

        Else it is the newest unfinished run, else the newest.
        """
        for _, each in self.touched():
            with suppress(FractalError):
                if each.status == "waiting" or self._has_effect(each.run):
                    return each.run
        going = (each.run for each in self.runs() if each.status not in ENDED | {"broken"})
        decided = (run for run in going if any(Inbox(self.workspace.runs / run).messages((*KINDS, "cancel"))))
        return next(decided, "") or self.newest_unfinished()

    def _has_effect(self, run: str) -> bool:
        """Whether something of a run is done again as its documents are now; raises `FractalError`."""
        run_context = run_context_of(self, run, self.ladder)[0]
        found = (edits.find(Session(run_context, each), redo=False) for each in self.documents(run))
        return any(not stale.kept for stales in found for stale in stales)

    def _trace(self, document: Document, given: str) -> str:
        """The `traceparent` of a new run: the caller's, or one of its own if it is traced; "" for none."""
        if not (given or self.config.otel):
            return ""
        from runtime.telemetry.tracing import own_traceparent, valid_traceparent

        return valid_traceparent(given) or (own_traceparent(document.meta) if self.config.otel else "")

    def _policy(self, **decided: Any) -> Policy:
        """The policy of a run, with the calls that are approved for the folder that it acts in."""
        policy, here = self.config.policy(**decided), relative(self.workspace, self._acts_in)
        return replace(policy, approved=tuple(call for call in policy.approved if call.folder == here))

    def _as(self, root: Document) -> None:
        """Use the agent and space of a run that is resumed."""
        names = {key: root.meta.extra.get(key) or "default" for key in ("agent", "space")}
        if names != {key: getattr(self.config, key) for key in names}:
            own = {"discovery": self.anew(agent=names["agent"]).config.discovery}
            own |= {"lifeforce": self.config.pool_of(names["agent"])}
            self.config = self.config.model_copy(update={**names, **own})
            for name in ("memory", "nerves", "discovery"):
                self.__dict__.pop(name, None)
            self._ladder = self.given

    @property
    def lifeforce(self) -> Lifeforce | None:
        """The pool of the agent's lifeforce; None if it is not counted."""
        pool = self.config.lifeforce
        if pool is None:
            return None
        from runtime.nervous.lifeforce import Lifeforce

        return Lifeforce(self.workspace, self.config.agent, pool)

    def growth(self, months: int = 12) -> list[Month]:
        """By month, oldest first: tasks, tools added and discovered, escalations, first tries, autonomy."""
        from runtime.nervous.growth import growth

        runs = [each for each in self.runs() if each.type not in (DREAM, CALL) and each.status != "broken"]
        messages = self.nerves.messages.all() if self.memory.there else []
        return growth(runs, messages, self.workshop.journal.entries(), datetime.now(UTC), months)

    @contextmanager
    def _reserved(self, run: str) -> Generator[float | None]:
        """Reserve lifeforce while a run is at work: all that it may use; None if it is not counted."""
        if (pool := self.lifeforce) is None:
            yield None
            return
        limit = pool.reserve(run)
        try:
            yield limit
        finally:
            with suppress(StorageError):  # else whoever next opens the pool settles it
                pool.give_back(run)

    def _meta_names(self, group: str, thread: str) -> dict[str, Any]:
        """Agent, space, group and thread for META, unless they are the default."""
        names = {"agent": self.config.agent, "space": self.config.space, "group": group, "thread": thread}
        return {key: name for key, name in names.items() if name not in ("", "default")}

    def _reused(self, task: str, context: Sequence[tuple[str, str]]) -> RunResult | None:
        """The result of an earlier run that this one would only repeat, at no cost."""
        notes = [(source, text) for source, text in context]
        refused = partial(self.memory.refused, task)
        root = reusable(
            self.workspace, task, notes, lambda run: run_context_of(self, run, self.ladder)[0], refused
        )
        if root is None:
            return None
        result = replace(result_of(root, self.path(root.meta.run), Waiting("nothing")), spent={}, reused=True)
        self.listener(Event("run_finished", result.run, result.id, data=event_data(result)))
        return result

    def folder_of(self, root: Document) -> Path:
        """The folder in which the run acts; this one if the run was copied from another machine."""
        folder = Path(root.meta.folder)
        if made := Worktree.owned(self.workspace, root):
            made.refuse_missing(root.meta.run)
        there = os.path.isdir(folder)  # noqa: PTH112 (Path.is_dir raises where it may not look)
        if there and self.workspace.has_folder(folder):
            return folder
        own, why = self.workspace.folder, "not in this workspace" if there else "not on this machine"
        self.warn(root.meta.run, f"the run's folder {folder} is {why}; it continues in {own}")
        return own

    async def replay(self, run: str, model: str | None = None) -> RunResult:
        """Repeat the task of an earlier run, from its log of replies or with another model.

        Memory answers what it answered before. A run that asked no model has no log.
        """
        run = self.find(run)
        root = self.root_document(run)
        logged = (self.workspace.runs / run / "calls.jsonl").is_file()
        recall = model is None and any(map(self.memory.answered, self.documents(run)))
        model = model or (f"replay:{run}" if logged else "reflex")
        files = [(note.source, note.text) for note in root.section(1).notes if note.origin == "tool:file"]
        replaying = self._like(None, {"model": model, "ladder": None, "recall": recall})
        if recall:
            replaying.memory.ladder = None  # it answers what it did then, whoever is on the ladder now
        worktree = "worktree" in root.meta.extra
        return await replaying.run(root.text(1, "task"), context=files, worktree=worktree)

    def anew(self, **settings: Any) -> Fractal:
        """Another `Fractal` for this folder, with the flags of this one and these settings."""
        return self._like(self.given, settings)

    def _like(self, ladder: Ladder | None, settings: Mapping[str, Any]) -> Fractal:
        more = {"on_event": self.listener, "person": self._person, "trusted": self._trusted}
        return Fractal(self.workspace.folder, settings={**self._flags(), **settings}, ladder=ladder, **more)

    async def _drive(
        self, run_context: RunContext, folder: Path, servers: Servers, policy: Policy
    ) -> RunResult:
        run_context.policy = policy
        self.workshop.begin(run_context)
        left_out = list(self.left_out()) if self.has_model else []
        for text in left_out[:MOST_LEFT_OUT]:
            self.warn(run_context.id, text)
        if len(left_out) > MOST_LEFT_OUT:
            self.warn(run_context.id, f"and {len(left_out) - MOST_LEFT_OUT} more; see: fractal trust")
        stopped: asyncio.CancelledError | None = None
        async with servers:
            try:
                result = await self._driven(run_context, folder)
            except asyncio.CancelledError as error:  # raised below, when everything is saved
                stopped = error
                result = self._result(run_context, folder, Outcome("interrupted", Exit.INTERRUPTED))
            else:
                await self._run_hooks(run_context, result)
        self._after(result)
        for name, data in self.memory.happened(run_context.id) if result.status in ENDED else ():
            self.listener(Event("memory", run_context.id, data={"event": name, **data}))
        self.listener(Event("run_finished", run_context.id, result.id, data=event_data(result)))
        if stopped:
            raise stopped
        return result

    async def _run_hooks(self, run_context: RunContext, result: RunResult) -> None:
        """Run the hooks for the end of a run, once for each end; META records what they did.

        It says before that they begin: if a process dies then, that is told, and they are not run again.
        """
        hooks = self.config.hooks_of_run().end
        if not hooks or result.status not in ENDED or result.reused:
            return
        root = run_context.store.load(result.id)
        noted = root.meta.extra.get("hooks", {})
        begun = noted.get("updated") == root.meta.updated
        if begun and "end" in noted:
            return

        def note(**more: Any) -> None:
            noted = {"updated": root.meta.updated, **more}
            run_context.store.save(root.having(extra={**root.meta.extra, "hooks": noted}))

        if begun:
            run_context.warn(HOOKS_UNKNOWN)
            note(end=[HOOKS_UNKNOWN])
            return
        note()
        given = {"run": result.run, "status": result.status, "task": redact(root.text(1, "task"))}
        given |= {"output": redact(result.output or ""), "folder": str(run_context.folder)}
        note(end=await at_end(run_context.context(None), hooks, given, run_context.warn))

    async def _run_hooks_left(self, root: Document, result: RunResult) -> None:
        """Run the hooks for the end of a run whose process died before it could."""
        if not self.config.hooks_of_run().end:
            return
        try:
            made, place = Worktree.owned(self.workspace, root), self.folder_of(root)
            self._acts_in = made.of if made else place
            run_context, servers = run_context_of(self, result.run, self._ladder_of(root.meta.type))
            move_to(self, run_context, place, made)
            async with servers:
                await self._run_hooks(run_context, result)
        except FractalError as error:  # what else is due is done all the same
            self.warn(result.run, f"the hooks at the end are not run: {error}")

    async def conclude(self, run: str) -> RunResult:
        """Do what is due after a run that has ended, if its process died before it could."""
        with run_lock(self.workspace.runs / run):
            root = self.root_document(run)
            self._as(root)
            self.workshop.open(but=run)
            result = result_of(root, self.path(run), Waiting("nothing"))
            await self._run_hooks_left(root, result)
            self._after(result)
            return result

    def _after(self, result: RunResult) -> None:
        """Do what is due after a run, or a part of it. Done again, it changes nothing."""
        run, ended, warn = result.run, result.status in ENDED, partial(self.warn, result.run)
        folder = self.workspace.runs / run
        self.workshop.end(run, result.status)
        if self.config.discovery == "progressive":
            self.discovery.designed(self.catalogue().tools)
        if self.messages_folder.is_dir():
            from runtime.nervous.design import settled

            settled(self.nerves.messages, self.workshop.journal)
        for _, text in unheard(folder) if ended else ():
            warn(f"{TOO_LATE}: {text}")
        withdraw(self.workspace.state / "mailbox", run)
        self.memory.end(folder, warn)
        if ended and self.messages_folder.is_dir():
            self.nerves.ended(result)
        if ended and self.config.otel:
            from runtime.telemetry import tracing

            try:
                tracing.send(folder, self.config.otel, content=self.config.otel_content)
            except (FractalError, OSError) as error:
                warn(f"its trace is not sent: {error}")

    async def _driven(self, run_context: RunContext, folder: Path) -> RunResult:
        with trust.watching(self.workspace.root), pinned.held(self.pins):
            return await self._driven_on(run_context, folder)

    async def _driven_on(self, run_context: RunContext, folder: Path) -> RunResult:
        while True:
            engine = Engine(run_context)
            run_context.store = FileStore(folder, fsync=self.config.fsync)
            run_context.stopping = ""
            messaging.weigh(self, folder)
            result = self._result(run_context, folder, got := await engine.drive())
            asked = open_question(unfinished(FileStore(folder)), result.waiting)
            if result.waiting:
                if found := await self._replied(run_context):
                    self._leave(run_context.id, *found)
                    continue
                result = self._result(run_context, folder, got)  # oversight may have spent something
            with run_context.clock.patient():
                reply = await ask(self._person, result, asked, plan_only=run_context.policy.plan_only)
            if not (self._person and reply):
                return result
            self.tell(run_context.id, reply.kind, by=self._person.by, **reply.values)

    async def _replied(self, run_context: RunContext) -> tuple[Said, Decider] | None:
        """What somebody, or oversight, has replied to what a run waits for."""
        if not self.config.remember or run_context.policy.plan_only:
            return None
        return await self.nerves.reply(run_context, unfinished(FileStore(run_context.artifacts.parent)))

    def _result(self, run_context: RunContext, folder: Path, got: Outcome | Waiting) -> RunResult:
        root = run_context.store.load(root_id(run_context.id))
        try:
            root = worktrees.counted(self, run_context.store, root)
        except FractalError as error:  # the folder is removed or in use; the run has ended all the same
            run_context.warn(f"the changes to apply are not counted: {error}")
        return result_of(root, folder / f"{root.meta.id}.md", got)

    def warn(self, run: str, message: str) -> None:
        """Send a `warning` event about a run."""
        self.listener(Event("warning", run, root_id(run), data={"message": message}))

    def _emit_start(self, root: Document) -> None:
        data = {"task": root.text(1, "task"), "folder": root.meta.folder}
        data |= {"rungs": [rung.name for rung in self.ladder]}
        self.listener(Event("run_started", root.meta.run, root.meta.id, data=data))

    def tell(self, run: str, kind: str, *, by: Decider = PROGRAM, **values: Any) -> bool:
        """Send a message to a run; True if a process works on it.

        The kinds are answer, approve, nudge (plan again, as `why` says), reject, say, cancel, and veto, which
        cancels and is kept as a decision.

        `by` is who decides, and is written to the document; a service that shows the question on a page gives
        `PAGE`. Raises `UsageError` if that decider may not approve a serious danger.
        """
        run = self.find(run)
        store, waits_for = FileStore(self.workspace.runs / run), "person" if kind == "answer" else "approval"
        document = None
        if self.config.remember and kind in (*KINDS, "veto"):
            document = open_question(unfinished(store), *([] if kind == "veto" else [waits_for]))
        if self.config.remember and kind == "veto":
            document = document or self.root_document(run)
        said = vetoed(str(values.get("why", ""))) if kind == "veto" else Said(kind, values)
        working = self._leave(run, said, by)
        if document:
            self.nerves.told(document, kind, by, values)
        return working

    def send(
        self, text: str, to: str = "", *, priority: Priority = "normal", by: Decider = PROGRAM
    ) -> Message:
        """Send a task to an agent (""; the default one): the beat starts a run and reports its outcome."""
        return messaging.send(self, text, to, by, priority)

    def queue(self) -> list[Queued]:
        """The tasks that were sent and not taken up yet, next first, each with its priority and cost."""
        return messaging.queued(self)

    def reply(self, message: str, kind: str, text: str = "", *, by: Decider = PROGRAM) -> Message:
        """Reply to an open message by its id, or the beginning of it: answer, approve, nudge, reject, veto.

        Raises `UsageError` if it is not open, or that decider may not approve a serious danger.
        """
        return messaging.reply(self, message, kind, text, by)

    def _leave(self, run: str, said: Said, by: Decider) -> bool:
        return leave(self, run, said.kind, by, self.config.trusted_clients, said.values)

    def feedback(self, run: str, good: bool, why: str = "") -> Path:
        """Record in the run's folder whether its result was good; learning reads it."""
        folder = self.workspace.runs / self.find(run)
        path = drop(folder, "feedback", good=good, why=why, at=now())
        self.memory.feedback(self.root_document(folder.name), good, why)
        return path

    def undo(self, run: str = "", step: int | None = None, *, force: bool = False) -> list[str]:
        """Restore what a run (the newest by default), or a step of its root, changed; one line per file.

        Raises `UsageError`, before anything is done, if files were changed since; `force` restores them too.
        """
        run = self.find(run)
        with run_lock(self.workspace.runs / run):
            documents = self.documents(run)
            if step is None and undo.in_effect(documents[0]):
                step = undo.APPLY
            snapshots, store = self._stores(documents, applied=step == undo.APPLY)
            lines = undo.undo(snapshots, store, documents, step, force=force)
            worktrees.counted(self, store, self.root_document(run))
            return lines

    def redo(self, run: str = "", *, force: bool = False) -> list[str]:
        """Revert the last undo of a run; one line per file."""
        run = self.find(run)
        with run_lock(self.workspace.runs / run):
            documents = self.documents(run)
            last = [each["step"] for each in undo.undone(documents[0])][-1:]
            snapshots, store = self._stores(documents, applied=last == [undo.APPLY])
            lines = undo.redo(snapshots, store, documents[0], force=force)
            worktrees.counted(self, store, self.root_document(run))
            return lines

    def diffs(self, run: str = "", step: int | None = None, *, loop: str = "") -> list[Change]:
        """What a run, a step of its root, or an operation of a `loop` changed, with the diffs of texts."""
        documents = self.documents(self.find(run))
        if made := Worktree.owned(self.workspace, documents[0]):
            snapshots = made.snapshots(self.workspace)
            if step is None:
                return applying.worktree_diffs(snapshots, documents)
        else:
            snapshots = self.snapshots(self.folder_of(documents[0]))
        return undo.diffs(snapshots, documents, step, loop)

    def unkept(self, run: str = "", step: int | None = None) -> dict[str, list[str]]:
        """What changed where nothing is kept, since a run or a step of its root began, whoever changed it.

        By the name of what is left out: `node_modules`, `venv`, caches.
        """
        documents = self.documents(self.find(run))
        folder = Path(documents[0].meta.folder)
        if made := Worktree.owned(self.workspace, documents[0]):
            return undo.unkept(made.snapshots(self.workspace), documents, step)
        if not self.workspace.has_folder(folder):  # it ran elsewhere
            return {}
        return undo.unkept(self.snapshots(folder), documents, step)

    def apply(self, run: str = "", *, force: bool = False) -> list[str]:
        """Bring what a run (the newest by default) changed in its worktree to the user's folder.

        Returns a line per file. Files that both sides changed are merged. Raises `UsageError`, before
        anything is written, if that cannot be; `force` takes the run's version. `undo` reverts it.
        """
        return worktrees.apply(self, self.find(run), force)

    def discard(self, run: str = "", *, force: bool = False) -> None:
        """Remove the worktree of a run; raises `UsageError` if not all is applied, unless with `force`."""
        worktrees.discard(self, self.find(run), force)

    def fork(self, run: str = "", step: int | None = None, *, worktree: bool = False) -> str:
        """Copy a run up to this step of its root (default: the last) as a new one; returns the id to resume.

        With a `worktree`, which the fork of a run with one always has, it starts from the files as they were
        after that step. Else it works in the folder of the run as it is now.
        """
        return worktrees.fork(self, self.find(run), step, worktree)

    def _stores(self, documents: Sequence[Document], *, applied: bool = False) -> tuple[Snapshots, FileStore]:
        """The snapshots of a run's folder, or of that to which it was applied, and its documents."""
        store = FileStore(self.workspace.runs / documents[0].meta.run, fsync=self.config.fsync)
        made = Worktree.owned(self.workspace, documents[0])
        if made and applied:
            return self.snapshots(made.of), store
        folder = self.folder_of(documents[0])
        return made.snapshots(self.workspace) if made else self.snapshots(folder), store

    def snapshots(self, folder: Path) -> Snapshots:
        """The snapshots of a folder that runs change."""
        return Snapshots(self.workspace.snapshots_home(folder), folder, self.workspace.protected)

    def gc(self, keep_days: float = 30, *, dry_run: bool = False) -> list[str]:
        """Move runs that ended more than `keep_days` ago to `state/archive/`; returns their ids."""
        if not dry_run:
            self.memory.catch_up()  # it cannot read the documents afterwards
        runs = [each for each in self.runs() if not worktrees.unapplied(self, each)]
        archived = put_away(self.workspace.state, runs, keep_days, dry_run=dry_run)
        if not dry_run:
            sweep(self.workspace)
            undo.forget(self.workspace)
        return archived

    def prompt(self, name: str, step: int = 0) -> tuple[str, Prompt]:
        """The phase and the exact prompt of the next call for this document."""
        document = self.document(name)
        run_context = run_context_of(self, document.meta.run, self.ladder)[0]
        run_context.folder = self.folder_of(document)
        return next_prompt(Session(run_context, document), step)

    def _flags(self) -> dict[str, Any]:
        return {name: getattr(self.config, name) for name, where in self.sources.items() if where == "flag"}
