"""Fractal from Python: start a run, go on with it, speak to it, read it; what the command line uses."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.catalogue import Catalogue, Source
from kernel.document import Document
from kernel.drafts import Drafts
from kernel.engine import Clock, Engine
from kernel.errors import FractalError, UsageError
from kernel.events import Event, Listener, now, silent
from kernel.loop import next_prompt
from kernel.prompt import Prompt
from kernel.replies import ReplyLog
from kernel.responder import Ladder
from kernel.sandbox import Sandbox
from kernel.screening import redactor
from kernel.steps import Waiting
from kernel.store import FileStore, Save
from kernel.workspace import Workspace, drop, is_locked, root_id, run_lock
from kernel.world import Held, Policy, World
from runtime import config as settings_of
from runtime.archive import put_away, take_back, undo
from runtime.building.workshop import Workshop
from runtime.crowd import one_of_many
from runtime.growing import growing
from runtime.ladder import build, refuse_unknown_price
from runtime.mcp.servers import Servers
from runtime.nervous.guard import Guard
from runtime.reading import Reader
from runtime.remembering import dreaming
from runtime.remembering.runs import Remembering
from runtime.remembering.tools import runner
from runtime.responders.dreaming import KIND as DREAM
from runtime.results import RunResult, result_of, told
from runtime.resuming import active_before, assumed, begin_session, go_back, raised
from runtime.reusing import reusable
from runtime.starting import first_document, prior, shelved

if TYPE_CHECKING:
    from runtime.memory.brain import Brain

Asker = Callable[[str], Awaitable[str]]


def shipped_system() -> Path:
    """The packed instructions, else the repository's, else `FRACTAL_SYSTEM`."""
    here = Path(__file__).parent
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
        person: Asker | None = None,
    ) -> None:
        super().__init__(Workspace.find(Path(folder), shipped_system()))
        self.config, self.sources = settings_of.load(self.workspace.root, settings or {})
        self.workshop = Workshop(self.workspace, self.config, on_event)
        self.given = self._ladder = ladder
        self._listener = on_event
        self._person = person

    @property
    def ladder(self) -> Ladder:
        """The rungs, cheapest first."""
        if self._ladder is None:
            self._ladder = build(self.config, self.systems, self.workspace.state, self.memory)
        return self._ladder

    def _ladder_of(self, type: str) -> Ladder:
        """The rungs of a run whose root is of that type: a dream's loop is memory's own work."""
        return dreaming.ladder_of(self) if type == DREAM else self.ladder

    @cached_property
    def memory(self) -> Remembering:
        """What this workspace remembers."""
        found = Remembering(self.workspace, self.config, self.systems)
        found.ladder = lambda: tuple(self.ladder)
        return found

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

    # ---- doing ----

    @growing
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
        refuse_unknown_price(ladder, self.config.usd)
        run = self.workspace.new_run()
        with self.workspace.claimed(run) as folder, run_lock(folder):
            world, clock, servers = self._world(run, folder, ladder)
            if tool and tool != DREAM and not world.catalogue.guided(tool):
                known = tool in world.catalogue.tools
                raise UsageError(f"{tool} guides no loop" if known else world.catalogue.unknown(tool))
            pieces = [*earlier, *shelved(world.store, context)]
            document = first_document(run, task, pieces, self.workspace.folder, self.config.bounds(), tool)
            document = document.having(extra=self._named(group))
            if plan_only:
                document = document.having(extra={**document.meta.extra, "plan_only": True})
            if self.sources["skills"] == "flag":  # so that it is resumed with them
                named = [str(place) for place in self.skills]
                document = document.having(extra={**document.meta.extra, "with_skills": named})
            world.store.commit([Save(document)])
            self._emit_start(document)
            policy = self.config.policy(plan_only=plan_only, yes=yes)
            return await self._drive(world, folder, clock, servers, policy)

    @growing
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
            world, clock, servers = self._world(run, folder, ladder, earlier, seconds)
            world.folder = self._folder_of(root)
            world.guard = Guard(self.workspace.systems, world.folder, self.workspace.protected)
            world.store.sweep()
            policy = self.config.policy(assume=assumed(root_id(run), assume), yes=yes)
            world.policy = policy
            go_back(world, root, limits, redo=redo)
            root = self.root_document(run)
            if root.ended:
                return result_of(root, folder / f"{root.meta.id}.md", Waiting("nothing"))
            refuse_unknown_price(ladder, limits.get("usd"))
            begin_session(world, root)
            self._emit_start(root)
            return await self._drive(world, folder, clock, servers, policy)

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

        def world_of(run: str) -> World:
            return self._world(run, self.workspace.runs / run, self.ladder)[0]

        root = reusable(self.workspace, task, [(source, text) for source, text in context], world_of)
        if root is None:
            return None
        path = self.path(root.meta.run)
        result = replace(result_of(root, path, Waiting("nothing")), spent={}, reused=True)
        self._listener(Event("run_finished", result.run, result.id, data=told(result)))
        return result

    def _folder_of(self, root: Document) -> Path:
        """Where the run's tools act; a run that was copied here from elsewhere goes on in this folder."""
        folder = Path(root.meta.folder)
        if folder.is_dir():
            return folder
        here = self.workspace.folder
        self._warn(root.meta.run, f"the run's folder {folder} is not on this machine; it goes on in {here}")
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
        again = Fractal(
            self.workspace.folder,
            settings={**self._flags(), "model": model, "ladder": None, "recall": recall},
            on_event=self._listener,
            person=self._person,
        )
        return await again.run(root.text(1, "task"), context=given)

    def anew(self, **settings: Any) -> Fractal:
        """Another one for this folder, with these settings beside the flags of this one."""
        values = {**self._flags(), **settings}
        more = {"on_event": self._listener, "person": self._person}
        return Fractal(self.workspace.folder, settings=values, ladder=self.given, **more)

    async def _drive(
        self, world: World, folder: Path, clock: Clock, servers: Servers, policy: Policy
    ) -> RunResult:
        world.policy = policy
        self.workshop.begin(world)
        async with servers:
            result = await self._driven(world, folder, clock)
        self.workshop.end(world, result)
        self.memory.end(folder, lambda message: self._warn(world.run, message))
        self._listener(Event("run_finished", world.run, result.id, data=told(result)))
        return result

    async def _driven(self, world: World, folder: Path, clock: Clock) -> RunResult:
        while True:
            engine = Engine(world, folder, clock)
            world.store = FileStore(folder, engine.wake, fsync=self.config.fsync)
            world.stopping = ""
            got = await engine.drive()
            root = world.store.load(root_id(world.run))
            result = result_of(root, folder / f"{root.meta.id}.md", got)
            asked = root.note(1, "question")
            if result.waiting == "person" and self._person and asked and asked.text == result.question:
                with clock.patient():
                    text = await self._person(result.question)
                if text.strip():
                    drop(folder, "answer", text=text)
                    continue
            return result

    def _world(
        self, run: str, folder: Path, ladder: Ladder, earlier: float = 0.0, seconds: float | None = None
    ) -> tuple[World, Clock, Servers]:
        clock = Clock(earlier)
        servers = Servers(self.workspace, lambda message: self._warn(run, message))
        bounds = self.config.bounds()
        bounds = bounds if seconds is None else replace(bounds, seconds=seconds)
        world = World(
            run,
            self.workspace.folder,
            FileStore(folder, fsync=self.config.fsync),
            ReplyLog(folder / "calls.jsonl", fsync=self.config.fsync),
            self.catalogue(folder / "drafts", servers.tools),
            ladder,
            Sandbox(self.config.sandbox, self.config.network, self.config.limits()),
            folder / "artifacts",
            bounds,
            self.config.policy(),
            self.workspace.protected,
            self.workspace.private,
            Drafts(folder / "drafts", self.systems),
            guard=Guard(self.workspace.systems, self.workspace.folder, self.workspace.protected),
            listener=self._listener,
            redact=redactor(os.environ),
            seconds=clock.seconds,
            patient=clock.patient,
        )
        world.runners = {"mcp": servers.run, "memory": runner(self, world)}
        world.known = self.memory.known
        world.take_back = lambda document: take_back(folder, document, world.folder)
        left = bounds.seconds - earlier
        world.deadline = (datetime.now(UTC) + timedelta(seconds=max(left, 0))).isoformat(timespec="seconds")
        return world, clock, servers

    def _warn(self, run: str, message: str) -> None:
        self._listener(Event("warning", run, root_id(run), data={"message": message}))

    def _emit_start(self, root: Document) -> None:
        data = {"task": root.text(1, "task"), "folder": root.meta.folder}
        data |= {"rungs": [rung.name for rung in self.ladder]}
        self._listener(Event("run_started", root.meta.run, root.meta.id, data=data))

    # ---- a person's part ----

    def tell(self, run: str, kind: str, **values: Any) -> bool:
        """Leave a message (answer, approve, reject, cancel) for a run; True when a process works on it."""
        folder = self.workspace.runs / self.find(run)
        root = self.root_document(folder.name)
        if root.ended:
            raise UsageError(f"run {folder.name} has ended ({root.meta.status}); there is nothing to {kind}")
        if kind != "cancel":
            values |= self._asked(folder.name, kind)
        drop(folder, kind, **values)
        return is_locked(folder)

    def _asked(self, run: str, kind: str) -> dict[str, Any]:
        """The open question that a message is about: it is never taken for an answer to a later one."""
        waits_for = "person" if kind == "answer" else "approval"
        for document in self.documents(run):
            waits = document.meta.waiting or {}
            if not document.ended and waits.get("for") == waits_for:
                meta = document.meta
                return {"loop": meta.id, "attempt": meta.attempt, "question": waits.get("question", "")}
        raise UsageError(f"run {run} waits for no {kind} now; `fractal tree {run}` shows what it does")

    def feedback(self, run: str, good: bool, why: str = "") -> Path:
        """Say whether a run's result was good; it stands in the run's folder, for learning to read."""
        folder = self.workspace.runs / self.find(run)
        path = drop(folder, "feedback", good=good, why=why, at=now())
        self.memory.feedback(folder.name, good)
        return path

    def undo(self, run: str, step: int | None = None) -> list[str]:
        """Put back the files that a run, or a step of its root, replaced; one line a file."""
        run = self.find(run)
        with run_lock(self.workspace.runs / run):
            documents = self.documents(run)
            return undo(self.workspace.runs / run, documents, self._folder_of(documents[0]), step)

    def gc(self, keep_days: float = 30, *, dry_run: bool = False) -> list[str]:
        """Put runs that ended more than `keep_days` ago into `state/archive/`; returns their ids."""
        if not dry_run:
            self.memory.catch_up()  # the documents are out of its sight afterwards
        runs = [(each.run, each.status, each.updated) for each in self.runs()]
        return put_away(self.workspace.state, runs, keep_days, dry_run=dry_run)

    # ---- reading ----

    def prompt(self, name: str, step: int = 0) -> tuple[str, Prompt]:
        """The phase and exactly the prompt that the next call for this document would send."""
        document = self.document(name)
        run = document.meta.run
        folder = self.workspace.runs / run
        world, _, _ = self._world(run, folder, self.ladder)
        world.folder = self._folder_of(document)
        return next_prompt(Held(world, document), step)

    def _flags(self) -> dict[str, Any]:
        return {name: getattr(self.config, name) for name, where in self.sources.items() if where == "flag"}
