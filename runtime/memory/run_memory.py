"""A workspace's memory as runs use it: loaded when needed; its errors never fail a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.asking.responder import estimate_tokens
from kernel.document.model import Document, root_id
from kernel.errors import FractalError
from kernel.events import now
from kernel.store.files import FileStore
from runtime.memory import DIRECT, FACTS, REPLAY, RUNG, methods_of, teaches
from runtime.memory.episodes.pending import note, postponed, waiting
from runtime.workspace.inbox import Inbox
from runtime.workspace.settings import Config
from runtime.workspace.workspace import DEFAULT, Workspace, brain_exists, space_of

if TYPE_CHECKING:
    from kernel.asking.responder import Responder
    from runtime.memory.brain import Brain
    from runtime.memory.context.awareness import Profile
    from runtime.memory.context.context import Context
    from runtime.memory.context.sources import ContextSources
    from runtime.memory.dream.dreamer import Dreamer
    from runtime.memory.dream.stages import Ask
    from runtime.memory.facts.records import Observation
    from runtime.memory.facts.retrieval import Answers
    from runtime.memory.learning.learner import Learning
    from runtime.memory.learning.library import Library
    from runtime.memory.learning.rules import ToolOptions
    from runtime.memory.tasks.methods import Files


class RunMemory:
    """The memory of one workspace. Where nothing was learned, a run of reflexes loads none of it."""

    def __init__(
        self, workspace: Workspace, config: Config, systems: Sequence[Path], files: Callable[[], Files]
    ) -> None:
        """`files` makes what reads and writes the phrasings of methods; it is called when memory loads."""
        self._workspace = workspace
        self._files = files
        self.folder = space_of(workspace.state, config.space)
        self.config = config
        self._systems = tuple(systems)
        self.ladder: Callable[[], Sequence[Responder]] | None = None  # the responders that learning may ask
        self.makers: Mapping[str, str] | None = None
        """The makers on the ladder by the names of their rungs, where the settings have made it."""
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def there(self) -> bool:
        """Whether there is a memory."""
        return "brain" in vars(self) or brain_exists(self.config.store, self.folder)

    @property
    def taught(self) -> bool:
        """Whether there is anything to show a model: a memory, or patterns."""
        return self.there or any(self.patterns.glob("*.md"))

    @property
    def patterns(self) -> Path:
        """The folder of learned patterns."""
        return self.folder / "patterns"

    @cached_property
    def library(self) -> Library:
        """The learned patterns; files are read when needed."""
        return self.library_of(self.config.agent)

    def library_of(self, agent: str) -> Library:
        """The patterns that an agent is shown."""
        from runtime.memory.learning.library import Library

        state = self._workspace.state
        above = [] if self.config.space == DEFAULT else [space_of(state, DEFAULT) / "patterns"]
        options = {"agent": agent, "above": above, "systems": self._systems, "state": state}
        return Library(self.patterns, **options, fsync=self.config.fsync)

    @cached_property
    def learning(self) -> Learning:
        """Learning of patterns from what went well and what did not."""
        from runtime.memory.learning.learner import Learning

        return Learning(self.brain, self.library, self._offered, space=self.config.space)

    def _offered(self) -> ToolOptions:
        from runtime.catalogue.catalogue import Catalogue
        from runtime.memory.learning.attempts import offered_by

        return offered_by(Catalogue(self._systems).tools)

    def profiles(self) -> list[Profile]:
        """The agents with their records. Raises `FractalError`."""
        from runtime.memory.context.awareness import profiles

        return profiles(self.brain.episodes.all() if self.there else ())

    @property
    def methods(self) -> Path:
        """The folder of learned methods, which are reflexes."""
        return self.folder / "methods"

    @cached_property
    def brain(self) -> Brain:
        """The memory itself."""
        from runtime.memory.brain import Brain, Settings

        brain = Brain(Settings(self.folder, self._systems, self._files, self.config))
        brain.makers = self.present
        return brain

    def present(self) -> Mapping[str, str] | None:
        """The makers on the ladder of these settings, or on the one that a program gave.

        None without a ladder, and where a run is made again from the log of an earlier one.
        """
        given = {rung.name: rung.name for rung in (self.ladder() if self.ladder else ())}
        return None if not given or any(map(_replays, given)) else {**given, **(self.makers or {})}

    @cached_property
    def dreamer(self) -> Dreamer:
        """The dreamer that consolidates it."""
        from runtime.memory.dream.dreamer import Dreamer

        return Dreamer(self.brain, clock=lambda: self.clock())

    def notes_for(self, document: Document) -> Sequence[tuple[str, str]]:
        """What a loop is shown of memory, by part; nothing if memory is empty or unreadable."""
        meta = document.meta
        if meta.type != "task" or not self.taught or not self.config.recall:
            return ()
        from runtime.memory.context.context import room_for
        from runtime.memory.episodes.attempts import refusals

        used = sum(estimate_tokens(note.text) for note in document.section(1).notes)
        room = room_for(int(meta.budget.get("context", 0)), used)
        task = document.text(1, "task")
        try:
            self.brain.recognise(task)
            refused = "\n".join(f"- {each}" for each in refusals(self.brain, task))
            shown = self._shown(task, room - estimate_tokens(refused), Path(meta.folder), meta.run)
            return [*([("refused", refused)] if refused else []), *shown]
        except FractalError:
            return ()  # the end of the run reports what is wrong with the store

    def _shown(self, task: str, room: int, folder: Path, run: str) -> Sequence[tuple[str, str]]:
        """The parts of memory for a task, and the way to ask if that is not one shot."""
        from runtime.memory.context.context import FRAME, TASKS
        from runtime.memory.tasks.asked import EXAMPLE, ONE_SHOT, read_ways

        ways = read_ways(self._systems) if "way" in self.config.shown else {}
        notes_by_way = {name: f"{name}: {text}" for name, text in ways.items() if text and name != ONE_SHOT}
        weight = max((estimate_tokens(text) + FRAME for text in notes_by_way.values()), default=0)
        if weight > room or self.brain.way(task, [*notes_by_way]) == ONE_SHOT:
            return self.context(task, room, folder, run).notes()
        notes = self.context(task, room - weight, folder, run).notes()
        shown = any(part == TASKS for part, _ in notes)
        way = self.brain.way(task, [name for name in notes_by_way if shown or name != EXAMPLE])
        return notes if way == ONE_SHOT else [*notes, ("way", notes_by_way[way])]

    def context(self, task: str, room: int, folder: Path, run: str = "") -> Context:
        """What memory has for a task within `room` tokens, and why. Raises `FractalError`."""
        return self.sources(folder).context(task, room, run=run)

    def sources(self, folder: Path) -> ContextSources:
        """What the context of a task in that folder is made of."""
        from runtime.memory.context.sources import ContextSources

        workspace = self._workspace
        hidden = (*workspace.protected, *workspace.private)
        return ContextSources(
            self.brain, folder, workspace.runs, hidden, self.library, self.config.shown, self.clock()
        )

    def end(self, folder: Path, warn: Callable[[str], None]) -> None:
        """After a run, or a part of it: keep what its loops taught; `warn` of what prevents that."""
        if "dreamer" in vars(self):
            self.dreamer.release(root_id(folder.name))
        if not self.config.remember:
            return
        store = FileStore(folder)
        try:
            documents = [store.peek(loop) for loop in store.loops()]
            if not teaches(documents):
                return
            note(self.folder, folder.name)
            beyond_reflexes = not all(map(_by_reflex, documents))
            if self.there or beyond_reflexes:
                self.brain.episodes.teach(folder.name, documents)
            roots = [each for each in documents if not each.meta.parent]
            ended = all(each.ended for each in roots)
            if beyond_reflexes and (ended or any(each.note(1, "answer") for each in roots)):
                self.brain.episodes.catch_up({folder.name: documents})  # another that goes on: later
                if ended and self.config.learn != "off":
                    self.learning.end(documents, self.verdict_on(folder.name), self.asked(folder.name))
        except (FractalError, OSError) as error:
            warn(f"what this run taught is not remembered yet: {error}")

    def happened(self, run: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """What memory did for a run that has ended: the names of its events, with details."""
        if "brain" not in vars(self):
            return ()
        if "dreamer" in vars(self):
            from runtime.memory.dream.report import happened

            with suppress(FractalError):
                self.brain.happened += happened(self.brain.shelf, root_id(run))
        events, self.brain.happened = self.brain.happened, []
        return events

    def verdict_on(self, run: str) -> dict[str, bool]:
        """A person's last verdict on a run, by its id; empty if there is none."""
        verdicts = [
            message.get("good") for _, message in Inbox(self._workspace.runs / run).messages(("feedback",))
        ]
        last = next((each for each in reversed(verdicts) if isinstance(each, bool)), None)
        return {} if last is None else {run: last}

    def asked(self, run: str) -> Ask | None:
        """What learning may ask; None if the settings allow no model."""
        if self.config.learn != "model" or self.ladder is None:
            return None
        return asking(self.ladder, self._systems, self._workspace.runs / run, self.config)

    def catch_up(self) -> None:
        """Take in the runs that were noted; errors are ignored."""
        if waiting(self.folder) or postponed(self.folder):
            with suppress(FractalError):
                self.brain.episodes.catch_up()

    def known(self, task: str) -> Answers | None:
        """What memory answers to a question; None if the task is none, or a person refused it since.

        Raises `FractalError`.
        """
        from runtime.memory.facts.mind import Mind
        from runtime.memory.facts.records import PERSON
        from runtime.memory.facts.retrieval import answers_of, retrieval_of
        from runtime.memory.facts.retrieval.questions import questions_of

        if not questions_of(self._systems).asks(task):
            return None
        brain = self.brain
        Mind.of(brain).take_in()
        retrieval = retrieval_of(brain.shelf, brain.embedder, self._systems)
        answers = answers_of(retrieval, task, 1, who=PERSON, now=self.clock())
        refused = max((each.at for each in brain.refusals.of(task)), default="")
        return None if refused and any(each.standing.said <= refused for each in answers.lines) else answers

    def doubt(self, name: str, task: str, steps: Sequence[Mapping[str, Any]]) -> str:
        """Why the result of a learned method has to be verified; "" if it is trusted."""
        return self.brain.doubt(name, task, steps)

    def told(self, task: str) -> Observation | None:
        """What a person answered when they were asked exactly this task; None if that is not known."""
        try:
            return self.brain.told(task) if self.config.recall and self.there else None
        except FractalError:
            return None  # the end of the run says what is wrong with the store

    def refused(self, task: str, run: str) -> bool:
        """Whether a person refused a result for this task, or a variation, and has not accepted this run."""
        try:
            return self.there and self.brain.refusals.against(run, task) is not None
        except FractalError:
            return True  # not known: the run says what is wrong with the store

    def answered(self, document: Document) -> bool:
        """Whether memory, or a learned method, answered in a loop."""
        answers = [each for each in document.meta.rungs if not each.get("passed")]
        return any(
            each.get("rung") in (RUNG, FACTS)
            or (each.get("rung") == DIRECT and methods_of(str(each.get("model", "")), self.methods))
            for each in answers
        )

    def feedback(self, root: Document, good: bool, why: str = "") -> None:
        """A person's verdict on the run with this root, for what it used or taught."""
        run = root.meta.run
        if self.config.remember:
            note(self.folder, run)
        if self.there or (self.config.remember and not good):
            self.brain.feedback(run, good, root.text(1, "task"), why, now())
            if self.config.remember and self.config.learn != "off":
                self.learning.feedback(run, good)


def asking(
    ladder: Callable[[], Sequence[Responder]], systems: Sequence[Path], run: Path, config: Config
) -> Ask:
    """Asks the models of a ladder from any thread; replies are logged in the run's folder."""

    def ask(name: str, slots: Mapping[str, str]) -> str:
        from concurrent.futures import ThreadPoolExecutor

        from kernel.store.call_log import ReplyLog
        from runtime.memory.prompting import Asking
        from runtime.workspace.prompts import keep_prompt

        asking = Asking(
            ladder(),
            systems,
            ReplyLog(run / "learning.jsonl"),
            config.bounds(),
            f"learning-{run.name}",
            keep_prompt=partial(keep_prompt, run) if config.keep_prompts else lambda ask: "",
        )
        with ThreadPoolExecutor(1) as pool:  # an event loop may run in this thread
            return pool.submit(asking, name, slots).result()

    return ask


def _replays(rung: str) -> bool:
    return rung.startswith(REPLAY)


def _by_reflex(document: Document) -> bool:
    """Whether reflexes alone answered in a loop, and no person: that teaches nothing."""
    return not document.note(1, "answer") and all(each.get("rung") == DIRECT for each in document.meta.rungs)
