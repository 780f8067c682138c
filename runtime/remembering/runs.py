"""A workspace's memory as its runs use it: loaded where it is needed, and never the fault of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.budget import estimate_tokens
from kernel.document import Document
from kernel.errors import FractalError
from kernel.store import FileStore
from kernel.workspace import Workspace, messages, root_id
from runtime.config import Config
from runtime.memory import DIRECT, RUNG, methods_of, teaches
from runtime.memory.noted import note, untaught, waiting
from runtime.places import DEFAULT, brain_place, space_of

if TYPE_CHECKING:
    from kernel.budget import Bounds
    from kernel.responder import Responder
    from runtime.memory.awareness import Profile
    from runtime.memory.brain import Brain
    from runtime.memory.context import Context
    from runtime.memory.dream.dreamer import Dreamer
    from runtime.memory.dream.stage import Ask
    from runtime.memory.learning.kinds import Kinds
    from runtime.memory.learning.learner import Learning
    from runtime.memory.learning.library import Library
    from runtime.memory.learning.rules import Offered
    from runtime.responders.reflexes.trial import Trial


class Remembering:
    """The memory of one workspace; a run of reflexes where nothing was ever learned loads none of it."""

    def __init__(self, workspace: Workspace, config: Config, systems: Sequence[Path]) -> None:
        self._workspace = workspace
        self.folder = space_of(workspace.state, config.space)
        self.config = config
        self._systems = tuple(systems)
        self._brain: Brain | None = None
        self._dreamer: Dreamer | None = None
        self.ladder: Callable[[], Sequence[Responder]] | None = None  # whom learning may ask
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def there(self) -> bool:
        """Whether anything was learned here."""
        return self._brain is not None or brain_place(self.config.store, self.folder).exists()

    @property
    def taught(self) -> bool:
        """Whether there is anything to show a model: what runs taught, or patterns put there."""
        return self.there or any(self.patterns.glob("*.md"))

    @property
    def patterns(self) -> Path:
        """The folder of learned patterns."""
        return self.folder / "patterns"

    @cached_property
    def library(self) -> Library:
        """The learned patterns. Cheap: files are read when they are asked for."""
        from runtime.memory.learning.library import Library

        state = self._workspace.state
        above = [] if self.config.space == DEFAULT else [space_of(state, DEFAULT) / "patterns"]
        named = {"agent": self.config.agent, "above": above, "systems": self._systems, "state": state}
        return Library(self.patterns, **named, fsync=self.config.fsync)

    @cached_property
    def learning(self) -> Learning:
        """What runs teach beyond how each was done: patterns of what went well and what did not."""
        from runtime.memory.learning.learner import Learning

        return Learning(self.brain, self.library, self._offered, space=self.config.space)

    def _offered(self) -> Offered:
        from kernel.catalogue import Catalogue
        from runtime.memory.learning.tried import offered_by

        return offered_by(Catalogue(self._systems).tools)

    def profiles(self) -> list[Profile]:
        """The agents, by what is known of their runs. Raises `FractalError`."""
        from runtime.memory.awareness import profiles

        past = self.brain.episodes.all() if self.there else ()
        return profiles(past)

    @property
    def kinds(self) -> Kinds:
        """The types of tasks."""
        return self.brain.kinds

    @property
    def methods(self) -> Path:
        """The folder of learned methods, which are read as reflexes are."""
        return self.folder / "methods"

    @property
    def brain(self) -> Brain:
        """The memory itself, as the settings have it."""
        if self._brain is None:
            self._brain = self._load()
        return self._brain

    @property
    def dreamer(self) -> Dreamer:
        """What puts it in order."""
        if self._dreamer is None:
            from runtime.memory.dream.dreamer import Dreamer

            self._dreamer = Dreamer(self.brain, clock=lambda: self.clock())
        return self._dreamer

    def _load(self) -> Brain:
        from runtime.memory.brain import Brain, Settings

        config = self.config
        return Brain(
            Settings(
                self.folder,
                self._systems,
                partial(_trial, self._systems),
                config.store,
                config.embedder,
                config.embedder_folder,
                config.remember,
                config.recall,
                config.fsync,
                observe=tuple(config.observe),
            )
        )

    def known(self, document: Document) -> Sequence[tuple[str, str]]:
        """What a loop is shown of memory, by part; nothing where memory is empty or cannot be read."""
        meta = document.meta
        if meta.type != "task" or not self.taught or not self.config.recall:
            return ()
        from runtime.memory.context import room_for

        used = sum(estimate_tokens(note.text) for note in document.section(1).notes)
        room = room_for(int(meta.budget.get("context", 0)), used)
        task = document.text(1, "task")
        try:
            self.brain.recognise(task)
            return self._shown(task, room, Path(meta.folder), meta.run)
        except FractalError:
            return ()  # the end of the run says what is wrong with the store

    def _shown(self, task: str, room: int, folder: Path, run: str) -> Sequence[tuple[str, str]]:
        """The parts of memory for a task, and the way it is asked in where that is not one shot."""
        from runtime.memory.context import FRAME, TASKS
        from runtime.memory.procedural.asked import EXAMPLE, ONE_SHOT, read_ways

        ways = read_ways(self._systems) if "way" in self.config.shown else {}
        told = {name: f"{name}: {text}" for name, text in ways.items() if text and name != ONE_SHOT}
        weight = max((estimate_tokens(text) + FRAME for text in told.values()), default=0)
        if weight > room or self.brain.way(task, [*told]) == ONE_SHOT:
            return self.context(task, room, folder, run).notes()
        notes = self.context(task, room - weight, folder, run).notes()
        shown = any(part == TASKS for part, _ in notes)
        way = self.brain.way(task, [name for name in told if shown or name != EXAMPLE])
        return notes if way == ONE_SHOT else [*notes, ("way", told[way])]

    def context(self, task: str, room: int, folder: Path, run: str = "") -> Context:
        """What memory has for a task, inside so many tokens, and why. Raises `FractalError`."""
        from runtime.memory.knowing import Knowing

        workspace = self._workspace
        hidden = (*workspace.protected, *workspace.private)
        knowing = Knowing(
            self.brain, folder, workspace.runs, hidden, self.library, self.kinds.of, self.config.shown
        )
        return knowing.context(task, room, run=run)

    def end(self, folder: Path, warn: Callable[[str], None]) -> None:
        """After a run, or a part of it: what its loops taught is kept; what hinders that is said."""
        if self._dreamer:
            self._dreamer.let_go(root_id(folder.name))
        if not self.config.remember:
            return
        store = FileStore(folder)
        try:
            documents = [store.peek(loop) for loop in store.loops()]
            if not teaches(documents):
                return
            note(self.folder, folder.name)
            others = not all(map(_by_reflex, documents))
            if self.there or others:
                self.brain.episodes.teach(folder.name, documents)
            if others and all(each.ended for each in documents if not each.meta.parent):
                self.brain.episodes.catch_up()  # a run that goes on later is taken in then
                self._learn(documents, folder)
        except (FractalError, OSError) as error:
            warn(f"what this run taught is not remembered yet: {error}")

    def _learn(self, documents: Sequence[Document], folder: Path) -> None:
        """What the loops teach beside others; it costs nothing where there is nothing to compare."""
        if self.config.learn == "off":
            return
        self.learning.end(documents, self.word_on(folder.name), self.asked(folder.name))

    def word_on(self, run: str) -> dict[str, bool]:
        """A person's last word on a run, by its id; nothing where nobody has spoken."""
        said = [message.get("good") for _, message in messages(self._workspace.runs / run, ("feedback",))]
        last = next((each for each in reversed(said) if isinstance(each, bool)), None)
        return {} if last is None else {run: last}

    def asked(self, run: str) -> Ask | None:
        """Whom learning asks what makes the difference; None where the settings say that it asks nobody."""
        if self.config.learn != "model" or self.ladder is None:
            return None
        return asking(self.ladder, self._systems, self._workspace.runs / run, self.config.bounds())

    def catch_up(self) -> None:
        """Take in the runs that were noted, where there are any; what hinders that is not the caller's."""
        if waiting(self.folder) or untaught(self.folder):
            with suppress(FractalError):
                self.brain.episodes.catch_up()

    def doubt(self, name: str, task: str, steps: Sequence[Mapping[str, Any]]) -> str:
        """Why somebody has to look at what a learned method did; "" where it is trusted."""
        return self.brain.doubt(name, task, steps)

    def answered(self, document: Document) -> bool:
        """Whether memory, or a method that it learned, has answered in a loop."""
        asked = [each for each in document.meta.rungs if not each.get("passed")]
        return any(
            each.get("rung") == RUNG
            or (each.get("rung") == DIRECT and methods_of(str(each.get("model", "")), self.methods))
            for each in asked
        )

    def feedback(self, run: str, good: bool) -> None:
        """A person's word on a run, for what it used or taught."""
        if self.config.remember:
            note(self.folder, run)
        if self.there:
            self.brain.feedback(run, good)
            if self.config.remember and self.config.learn != "off":
                self.learning.feedback(run, good)


def asking(
    ladder: Callable[[], Sequence[Responder]], systems: Sequence[Path], run: Path, bounds: Bounds
) -> Ask:
    """Asks the models of a ladder, from whatever thread; the replies are logged in the run's folder."""

    def ask(name: str, slots: Mapping[str, str]) -> str:
        from concurrent.futures import ThreadPoolExecutor

        from kernel.replies import ReplyLog
        from kernel.screening import redactor
        from runtime.memory.prompting import Asking

        log = ReplyLog(run / "learning.jsonl")
        whole = Asking(ladder(), systems, log, bounds, f"learning-{run.name}", redact=redactor(os.environ))
        with ThreadPoolExecutor(1) as pool:  # an event loop may run in this thread
            return pool.submit(whole, name, slots).result()

    return ask


def _by_reflex(document: Document) -> bool:
    """Whether no rung but the reflexes has answered in a loop: that teaches nothing."""
    return all(each.get("rung") == DIRECT for each in document.meta.rungs)


def _trial(systems: tuple[Path, ...]) -> Trial:
    from runtime.responders.reflexes.trial import Trial  # only what learns reads phrasings for it

    return Trial(systems)
