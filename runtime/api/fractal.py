"""Fractal from Python: start a run, go on with it, speak to it, read it; what the command line uses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.asking.prompt import Prompt
from kernel.asking.responder import Ladder
from kernel.document.model import Document, root_id
from kernel.errors import Exit, FractalError, UsageError
from kernel.events import Event, Listener, now, silent
from kernel.loop.advance import Outcome, next_prompt
from kernel.loop.approval import PROGRAM, Decider
from kernel.loop.do import Waiting
from kernel.loop.engine import Clock, Engine
from kernel.loop.run_context import Policy, RunContext, Session
from kernel.store.files import FileStore
from runtime.api import dreaming
from runtime.api.building import builds_what_it_lacked
from runtime.api.run_context import move_to, run_context_of
from runtime.catalogue.catalogue import Catalogue, Source
from runtime.evolution.workshop import Workshop
from runtime.mcp.client.servers import Servers
from runtime.memory.run_memory import Remembering
from runtime.models.ladder import build
from runtime.models.mailbox import withdraw
from runtime.reflexes.dreaming import KIND as DREAM
from runtime.sandbox.changes import Change
from runtime.sandbox.snapshot import Snapshots
from runtime.workspace import settings as settings_of
from runtime.workspace import trust, undo
from runtime.workspace.archive import put_away
from runtime.workspace.concurrency import one_of_many
from runtime.workspace.inbox import Inbox, Person, asked, drop, leave
from runtime.workspace.new_run import first_document, prior, shelved
from runtime.workspace.resume import active_before, assumed, begin_session, go_back, raised
from runtime.workspace.reuse import reusable
from runtime.workspace.runs import Reader, RunResult, result_of, told
from runtime.workspace.trust import asks_for, lowering
from runtime.workspace.workspace import Workspace, run_lock

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.memory.tasks.methods import Files


def shipped_system() -> Path:
    """The packed instructions, else the repository's, else `FRACTAL_SYSTEM`."""
    here = Path(__file__).parent.parent
    for place in (here / "_system", here.parent / "system", Path(os.environ.get("FRACTAL_SYSTEM", "-"))):
        if (place / "pattern.md").is_file():
            return place
    raise FractalError("the instructions (system/) are missing; install again, or set FRACTAL_SYSTEM")


class Fractal(Reader):
    """A workspace, its settings and its ladder. Cheap to make: nothing is read before it is needed."""

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
        self.config, self.sources = settings_of.load(self.workspace.root, settings or {})
        self.workshop = Workshop(self.workspace, self.config, on_event)
        self.given = self._ladder = ladder
        self.listener = on_event
        self._person = person
        self._trusted = trusted

    @property
    def ladder(self) -> Ladder:
        """The rungs, cheapest first; raises `Untrusted`."""
        self.refuse_untrusted()
        if self._ladder is None:
            self._ladder = build(self.config, self.systems, self.workspace.state, self.memory)
        return self._ladder

    def _ladder_of(self, type: str) -> Ladder:
        """The rungs of a run whose root is of that type: a dream's loop is memory's own work."""
        return dreaming.ladder_of(self) if type == DREAM else self.ladder

    @cached_property
    def memory(self) -> Remembering:
        """What this workspace remembers."""
        named = lowering(self.workspace.root, self.config, self.sources)
        if {"embedder", "embedder_folder"} & set(named):
            self.refuse_untrusted()  # it would load what the folder names
        found = Remembering(self.workspace, self.config, self.systems, self._files)
        found.ladder = lambda: tuple(self.ladder)
        return found

    def _files(self) -> Files:
        from runtime.reflexes.trial import Trial  # only what learns needs it

        return Trial(self.systems)

    @property
    def brain(self) -> Brain:
        """The same, loaded."""
        return self.memory.brain

    @property
    def systems(self) -> tuple[Path, ...]:
        """The folders of instructions, the nearest first; a bare workspace has its own alone."""
        return self.workspace.systems if self.config.shipped else self.workspace.systems[:1]

    @property
    def skills(self) -> list[Path]:
        """The configured folders of skills; a relative one lies beside the settings."""
        named = (self.workspace.root / Path(name).expanduser() for name in self.config.skills)
        return [Path(os.path.normpath(place)) for place in named]

    def catalogue(self, drafts: Path | None = None, source: Source | None = None) -> Catalogue:
        """The tools and operations that the system has; `drafts`: of a run that is building some.

        `source` gives the tools of MCP servers, else what is known of them without asking.
        """
        sources = [source or Servers(self.workspace).tools]
        return Catalogue(self.systems, drafts=drafts, skills=self.skills, sources=sources)

    def untrusted(self) -> list[trust.Item]:
        """What the folder's own files ask for and this user has not allowed yet."""
        return trust.waiting(() if self._trusted else asks_for(self.workspace, self.config, self.sources))

    def refuse_untrusted(self) -> None:
        """Raise `Untrusted` when the folder asks for what this user has not allowed; looked at once."""
        if items := self.untrusted():
            raise trust.Untrusted(items)
        self._trusted = True

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
    ) -> RunResult:
        """Start a run. `context` holds pairs of source and text; `after` an earlier run to follow up.

        With `tool`, a guided one, its text guides the loop at the top. With `reuse` the result of an earlier
        run is taken where its task, inputs and instructions are the same, and it only read. Runs of one
        `group` are attempts at one task, to be compared.
        """
        if not task.strip():
            raise UsageError('the task is empty; say what is to be done: fractal run "…"')
        earlier = prior(self.root_document(self.find(after))) if after else []
        if reuse and not (tool or after or plan_only) and (known := self._reused(task, context)):
            return known
        ladder = self._ladder_of(tool)  # a wrong setting is told before anything is written
        run = self.workspace.new_run()
        with self.workspace.claimed(run) as folder, run_lock(folder):
            run_context, clock, servers = run_context_of(self, run, ladder)
            if tool and tool != DREAM and not run_context.catalogue.guided(tool):
                known = tool in run_context.catalogue.tools
                raise UsageError(f"{tool} guides no loop" if known else run_context.catalogue.unknown(tool))
            pieces = [*earlier, *shelved(run_context.store, context)]
            document = first_document(run, task, pieces, self.workspace.folder, self.config.bounds(), tool)
            extra: dict[str, Any] = {**self._named(group), **({"plan_only": True} if plan_only else {})}
            if self.sources["skills"] == "flag":  # so that it is resumed with them
                extra["with_skills"] = [str(place) for place in self.skills]
            document = document.having(extra=extra)
            run_context.store.save(document)
            self._emit_start(document)
            policy = self.config.policy(plan_only=plan_only, yes=yes)
            return await self._drive(run_context, folder, clock, servers, policy)

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
        """Go on with a run (the newest unfinished one when none is named).

        What a person changed in its documents is told first, by `stale` events, and what depends on it is
        done again; `redo`: also what instructions that have changed since had led to. `assume` says of steps
        that may have happened `rerun` or `done`; of one step `3=done`, below the root `LOOP:3=done`.
        """
        run = self.find(run) if run else self.newest_unfinished()
        folder = self.workspace.runs / run
        with run_lock(folder):
            root = self.root_document(run)
            skills = (*self.config.skills, *root.meta.extra.get("with_skills", ()))
            self.config = self.config.model_copy(update={"skills": tuple(dict.fromkeys(skills))})
            self._as(root)
            limits = raised(root, self.config.bounds(), flags=self._flags())
            earlier, seconds = active_before(folder, root), float(limits["seconds"])
            ladder = self._ladder_of(root.meta.type)
            run_context, clock, servers = run_context_of(self, run, ladder, earlier=earlier, seconds=seconds)
            move_to(self, run_context, self._folder_of(root))
            run_context.store.sweep()
            policy = self.config.policy(assume=assumed(root_id(run), assume), yes=yes)
            run_context.policy = policy
            go_back(run_context, root, limits, redo=redo)
            root = self.root_document(run)
            if root.ended:
                return result_of(root, folder / f"{root.meta.id}.md", Waiting("nothing"))
            begin_session(run_context, root)
            self._emit_start(root)
            return await self._drive(run_context, folder, clock, servers, policy)

    def _as(self, root: Document) -> None:
        """A run goes on as the agent that began it, with the memory of its space."""
        named = {key: root.meta.extra.get(key) or "default" for key in ("agent", "space")}
        if named != {key: getattr(self.config, key) for key in named}:
            self.config = self.config.model_copy(update=named)
            self.__dict__.pop("memory", None)
            self._ladder = self.given

    def _named(self, group: str) -> dict[str, str]:
        """Who works where, as far as the settings name it."""
        named = {"agent": self.config.agent, "space": self.config.space, "group": group}
        return {key: name for key, name in named.items() if name not in ("", "default")}

    def _reused(self, task: str, context: Sequence[tuple[str, str]]) -> RunResult | None:
        """The result of an earlier run that this one would only repeat; it has cost nothing now."""
        given = [(source, text) for source, text in context]
        root = reusable(self.workspace, task, given, lambda run: run_context_of(self, run, self.ladder)[0])
        if root is None:
            return None
        result = replace(result_of(root, self.path(root.meta.run), Waiting("nothing")), spent={}, reused=True)
        self.listener(Event("run_finished", result.run, result.id, data=told(result)))
        return result

    def _folder_of(self, root: Document) -> Path:
        """Where the run's tools act; a run that was copied here from elsewhere goes on in this folder."""
        folder = Path(root.meta.folder)
        if os.path.isdir(folder):  # noqa: PTH112 (Path.is_dir raises where it may not look)
            return folder
        here = self.workspace.folder
        self.warn(root.meta.run, f"the run's folder {folder} is not on this machine; it goes on in {here}")
        return here

    async def replay(self, run: str, model: str | None = None) -> RunResult:
        """The task of an earlier run again: from its log of replies, or with another model.

        What memory answered then, it answers again; a run that asked no model has no log.
        """
        run = self.find(run)
        root = self.root_document(run)
        logged = (self.workspace.runs / run / "calls.jsonl").is_file()
        recall = model is None and any(map(self.memory.answered, self.documents(run)))
        model = model or (f"replay:{run}" if logged else "reflex")
        given = [(note.source, note.text) for note in root.section(1).notes if note.origin == "tool:file"]
        again = self._like(None, {"model": model, "ladder": None, "recall": recall})
        return await again.run(root.text(1, "task"), context=given)

    def anew(self, **settings: Any) -> Fractal:
        """Another one for this folder, with these settings beside the flags of this one."""
        return self._like(self.given, settings)

    def _like(self, ladder: Ladder | None, settings: Mapping[str, Any]) -> Fractal:
        more = {"on_event": self.listener, "person": self._person, "trusted": self._trusted}
        return Fractal(self.workspace.folder, settings={**self._flags(), **settings}, ladder=ladder, **more)

    async def _drive(
        self, run_context: RunContext, folder: Path, clock: Clock, servers: Servers, policy: Policy
    ) -> RunResult:
        run_context.policy = policy
        self.workshop.begin(run_context)
        stopped: asyncio.CancelledError | None = None
        async with servers:
            try:
                result = await self._driven(run_context, folder, clock)
            except asyncio.CancelledError as error:  # its caller hears of it when all is saved
                stopped = error
                result = self._result(run_context, folder, Outcome("interrupted", Exit.INTERRUPTED))
        self.workshop.end(run_context, result)
        withdraw(self.workspace.state / "mailbox", run_context.id)
        self.memory.end(folder, run_context.warn)
        self.listener(Event("run_finished", run_context.id, result.id, data=told(result)))
        if stopped:
            raise stopped
        return result

    async def _driven(self, run_context: RunContext, folder: Path, clock: Clock) -> RunResult:
        while True:
            engine = Engine(run_context, Inbox(folder), clock)
            run_context.store = FileStore(folder, engine.wake, fsync=self.config.fsync)
            run_context.stopping = ""
            result = self._result(run_context, folder, await engine.drive())
            root = run_context.store.load(root_id(run_context.id))
            with clock.patient():
                said = await asked(self._person, result, root, plan_only=run_context.policy.plan_only)
            if not (self._person and said):
                return result
            self.tell(run_context.id, said.kind, by=self._person.by, **said.values)

    def _result(self, run_context: RunContext, folder: Path, got: Outcome | Waiting) -> RunResult:
        root = run_context.store.load(root_id(run_context.id))
        return result_of(root, folder / f"{root.meta.id}.md", got)

    def warn(self, run: str, message: str) -> None:
        """Tell whoever watches what goes wrong beside a run."""
        self.listener(Event("warning", run, root_id(run), data={"message": message}))

    def _emit_start(self, root: Document) -> None:
        data = {"task": root.text(1, "task"), "folder": root.meta.folder}
        data |= {"rungs": [rung.name for rung in self.ladder]}
        self.listener(Event("run_started", root.meta.run, root.meta.id, data=data))

    def tell(self, run: str, kind: str, *, by: Decider = PROGRAM, **values: Any) -> bool:
        """Leave a message (answer, approve, reject, cancel) for a run; True when a process works on it.

        `by` is who decides, and stands in the document. A service that shows the question to a person on a
        page gives `PAGE`. Raises `UsageError` where that decider may not approve of a serious danger.
        """
        return leave(self, self.find(run), kind, by, self.config.trusted_clients, values)

    def feedback(self, run: str, good: bool, why: str = "") -> Path:
        """Say whether a run's result was good; it stands in the run's folder, for learning to read."""
        folder = self.workspace.runs / self.find(run)
        path = drop(folder, "feedback", good=good, why=why, at=now())
        self.memory.feedback(folder.name, good)
        return path

    def undo(self, run: str = "", step: int | None = None, *, force: bool = False) -> list[str]:
        """Bring back what a run (the newest by default), or a step of its root, changed; one line a file.

        Raises `UsageError` where files were changed since, before anything is done; `force` undoes that, too.
        """
        run = self.find(run)
        with run_lock(self.workspace.runs / run):
            documents = self.documents(run)
            return undo.undo(*self._kept(documents), documents, step, force=force)

    def redo(self, run: str = "", *, force: bool = False) -> list[str]:
        """Take the last undoing of a run back; one line a file."""
        run = self.find(run)
        with run_lock(self.workspace.runs / run):
            documents = self.documents(run)
            return undo.redo(*self._kept(documents), documents[0], force=force)

    def diffs(self, run: str = "", step: int | None = None) -> list[Change]:
        """What a run, or a step of its root, changed in its folder, with the diffs of texts."""
        documents = self.documents(self.find(run))
        return undo.diffs(self._kept(documents)[0], documents, step)

    def _kept(self, documents: Sequence[Document]) -> tuple[Snapshots, FileStore]:
        store = FileStore(self.workspace.runs / documents[0].meta.run, fsync=self.config.fsync)
        return self.snapshots(self._folder_of(documents[0])), store

    def snapshots(self, folder: Path) -> Snapshots:
        """What is kept of a folder that runs change."""
        return Snapshots.of(self.workspace.snapshots, folder, self.workspace.protected)

    def gc(self, keep_days: float = 30, *, dry_run: bool = False) -> list[str]:
        """Put runs that ended more than `keep_days` ago into `state/archive/`; returns their ids."""
        if not dry_run:
            self.memory.catch_up()  # the documents are out of its sight afterwards
        runs = [(each.run, each.status, each.updated) for each in self.runs()]
        gone = put_away(self.workspace.state, runs, keep_days, dry_run=dry_run)
        if not dry_run:
            undo.forget(self.workspace)
        return gone

    def prompt(self, name: str, step: int = 0) -> tuple[str, Prompt]:
        """The phase and exactly the prompt that the next call for this document would send."""
        document = self.document(name)
        run_context = run_context_of(self, document.meta.run, self.ladder)[0]
        run_context.folder = self._folder_of(document)
        return next_prompt(Session(run_context, document), step)

    def _flags(self) -> dict[str, Any]:
        return {name: getattr(self.config, name) for name, where in self.sources.items() if where == "flag"}
