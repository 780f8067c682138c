"""Runs the stages of a dream one by one: each in one transaction, archived first, recorded in the same one.

A finished stage is never repeated, so a killed dream continues where it was. A stage that wants to ask a
model is rolled back, the model is asked, and the stage runs again with the reply: nobody who wants to write
waits for a model. A rehearsal does the same in a transaction that is rolled back, on copies of the files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kernel.errors import UsageError
from runtime import locks
from runtime.memory.brain import Brain
from runtime.memory.dream.archive import FILES, Archive, Change, UndoResult, recording
from runtime.memory.dream.stages import ALL, Dream, DreamRecord, Stage, StageRecord, StageResult
from runtime.memory.facts.records import stamp
from runtime.memory.prompting import Asking, DeferredAsking
from runtime.workspace.workspace import DEFAULT, space_of, state_of

LOCK = "dream.lock"
WORSE = "worse"
"""The count of a stage that finds memory worse than before the dream."""
TRIES = 4
"""Attempts of a stage that asks a model, as a question may depend on earlier replies."""
Clock = Callable[[], datetime]


def today() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class RehearsedStage:
    """What a stage would do."""

    stage: Stage
    done: StageRecord


class _RollBack(Exception):
    """The rehearsal is over, or a model must be asked first."""


class Dreamer:
    """Dreams over one brain; one dream at a time on one memory, in whatever process."""

    def __init__(
        self,
        brain: Brain,
        *,
        clock: Clock = today,
        asking: Asking | None = None,
        stages: Sequence[Stage] = ALL,
    ) -> None:
        self.brain, self.clock, self.asking = brain, clock, asking
        self.stages: Mapping[str, Stage] = {stage.name: stage for stage in stages}
        self.memory = brain.settings.folder
        self.archive = Archive(brain)
        self._held: tuple[str, ExitStack] | None = None

    def hold(self, dream: str) -> None:
        """Lock the memory until `release` or the end of the process. Raises `UsageError` if it is locked."""
        if self._held:
            if self._held[0] != dream:
                raise UsageError(f"a dream is already running here ({self._held[0]}); one at a time")
            return
        lock = ExitStack()
        handle = lock.enter_context(locks.lock_file(self.memory / LOCK))
        if not locks.try_lock(handle):
            owner = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "unknown"
            lock.close()
            raise UsageError(f"a dream is already running here ({owner}); one at a time")
        if not lock.enter_context(self.brain.shelf.keeper.held(LOCK)):
            lock.close()
            raise UsageError("a dream is already running on another machine; one at a time")
        with suppress(OSError):  # for people; the lock holds without it
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{dream}, process {os.getpid()}\n".encode(), 0)
        self._held = (dream, lock)

    def release(self, dream: str = "") -> None:
        """Unlock, if this dream (none named: any) has the lock."""
        if self._held and dream in ("", self._held[0]):
            self._held[1].close()
            self._held = None

    def dream(self, id: str, stages: Sequence[Stage], since: str = "") -> DreamRecord:
        """All of these stages, without a document; finished ones are skipped."""
        try:
            for stage in stages:
                self.do(id, stage.name, since)
        finally:
            self.release(id)
        return self.brain.shelf.get(DreamRecord, id) or DreamRecord(id=id)

    def do(self, id: str, name: str, since: str = "") -> StageRecord:
        """One stage of a dream; what it did, also if that was earlier."""
        stage = self.stages.get(name)
        if stage is None:
            raise UsageError(f"there is no stage {name}; there are {', '.join(self.stages)}")
        self.hold(id)
        self.archive.finish_undo()
        dream = self.brain.shelf.get(DreamRecord, id)
        done = dream.stages.get(name) if dream else None
        if done is None:
            dream = dream or DreamRecord(id=id, at=stamp(self.clock()), since=since)
            done = self._do(dream, stage)
        if done.counts.get(WORSE) and (dream := self.brain.shelf.get(DreamRecord, id)):
            self.archive.undo(dream)  # less is found than before
        return done

    def _do(self, dream: DreamRecord, stage: Stage) -> StageRecord:
        """Repeat the stage while it waits for a model; the last attempt does not wait."""
        asking = self.asking
        ahead, spent = (DeferredAsking(asking), asking.spent()) if asking else (None, None)
        restored, began = self.archive.recover(), time.monotonic()
        for left in reversed(range(TRIES)):
            waits = partial(_waits, ahead if left else None)
            files = self.archive.begin()
            try:
                with suppress(_RollBack), self.brain.shelf.transaction():
                    result, changes = self._run(dream, stage, files, ahead, waits)
                    done = _done(result, self.clock(), len(changes), began, restored)
                    if asking and spent is not None:
                        trouble = tuple(asking.troubles)
                        done = done.model_copy(
                            update={"asked": asking.spent_since(spent), "trouble": trouble}
                        )
                        asking.troubles.clear()
                    self.archive.keep(dream, changes)
                    stages = {**dream.stages, stage.name: done}
                    self.brain.shelf.put(dream.model_copy(update={"stages": stages}))
                    return done
            except BaseException:
                self.archive.restore(files)
                self.archive.end()  # only now: what could not be restored, the next stage recovers
                raise
            finally:
                self.brain.refresh()
            self.archive.end()
            if ahead:
                ahead.catch_up()
        raise AssertionError("the last attempt does not wait")

    def _run(
        self,
        dream: DreamRecord,
        stage: Stage,
        files: Mapping[str, str],
        ahead: DeferredAsking | None,
        waits: Callable[[], bool],
    ) -> tuple[StageResult, list[Change]]:
        """Run a stage in an open transaction; returns its result, and what it changed."""
        at = datetime.fromisoformat(dream.at)
        with recording(self.brain.shelf) as recorder:
            result = stage.run(Dream(dream.id, self.brain, self.brain.shelf, at, dream.since, ahead, waits))
            if waits():
                raise _RollBack
            return result, [*recorder.changed(), *self.archive.changed_files(files)]

    def undo(self) -> UndoResult:
        """Take back the last dream. Raises `UsageError` if there is none."""
        self.hold("undo")
        try:
            self.archive.recover()
            if undone := self.archive.finish_undo():
                return undone
            if (last := self.last()) is None:
                raise UsageError("there is no dream to undo")
            return self.archive.undo(last)
        finally:
            self.release("undo")

    def last(self) -> DreamRecord | None:
        """The dream that did something last."""
        dreams = [each for each in self.brain.shelf.scan(DreamRecord) if each.stages]
        return max(dreams, key=lambda each: (each.latest, each.id), default=None)

    def rehearse(self, stages: Sequence[Stage], since: str = "") -> list[RehearsedStage]:
        """What these stages would do, without a model; no row and no file changes."""
        rehearsed: list[RehearsedStage] = []
        at = self.clock()
        with tempfile.TemporaryDirectory(prefix="fractal-dream-") as place:
            state = state_of(self.memory)
            for folder in (space_of(state, DEFAULT), *sorted((state / "spaces").glob("*/memory"))):
                for source in (folder / name for name in FILES):
                    if source.is_dir():
                        shutil.copytree(source, Path(place) / source.relative_to(state))
            copy = Path(place) / self.memory.relative_to(state)
            brain = self.brain.elsewhere(copy)
            archive, shelf = Archive(brain), brain.shelf
            with suppress(_RollBack), shelf.transaction():
                for stage in stages:
                    files, began = archive.files(), time.monotonic()
                    with recording(shelf) as recorder:
                        result = stage.run(Dream("rehearsal", brain, shelf, at, since))
                        changed = len(recorder.changed()) + len(archive.changed_files(files))
                    rehearsed.append(RehearsedStage(stage, _done(result, at, changed, began)))
                raise _RollBack
        self.brain.refresh()
        return rehearsed


def _waits(ahead: DeferredAsking | None) -> bool:
    """Whether a model must be asked before the stage can be done."""
    return ahead is not None and ahead.wants


def _done(
    result: StageResult, at: datetime, changed: int, began: float, restored: Sequence[str] = ()
) -> StageRecord:
    repaired = tuple(f"restored {name}, which a killed process had left half done" for name in restored)
    return StageRecord(
        at=at.isoformat(),
        did=(*repaired, *result.did),
        counts=dict(result.counts),
        form=result.form,
        changed=changed,
        seconds=round(time.monotonic() - began, 3),
    )
