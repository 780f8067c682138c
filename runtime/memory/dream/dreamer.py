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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import cast

from kernel import disk
from kernel.errors import UsageError
from kernel.store.call_log import Totals
from runtime.memory.brain import Brain
from runtime.memory.dream.archive import FILES, Archive, Noting, Undone
from runtime.memory.dream.stage import Done, Dream, Dreamt, Stage, Told
from runtime.memory.dream.stages import ALL
from runtime.memory.prompting import Ahead, Asking
from runtime.memory.store.shelf import Keeper
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
class Rehearsed:
    """What a stage would do."""

    stage: Stage
    done: Done


@dataclass
class _Work:
    """A stage in progress."""

    stage: Stage
    ahead: Ahead | None
    restored: Sequence[str]  # files that a killed process had changed
    spent: Totals | None  # on models, before
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # as they were
    part: str = ""
    began: float = field(default_factory=time.monotonic)
    tries: int = TRIES  # that are left

    def waits(self) -> bool:
        """Whether a model must be asked before this can be done."""
        return self.tries > 0 and self.ahead is not None and self.ahead.wants


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
        self.archive = Archive(self.memory, fsync=brain.config.fsync)
        self._held: tuple[str, ExitStack] | None = None

    # ---- one dream at a time -----------------------------------------------------------------------------

    def hold(self, dream: str) -> None:
        """Lock the memory until `let_go` or the end of the process. Raises `UsageError` if it is locked."""
        if self._held:
            if self._held[0] != dream:
                raise UsageError(f"a dream is already running here ({self._held[0]}); one at a time")
            return
        lock = ExitStack()
        handle = lock.enter_context(disk.lock_file(self.memory / LOCK))
        if not disk.try_lock(handle):
            owner = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "unknown"
            lock.close()
            raise UsageError(f"a dream is already running here ({owner}); one at a time")
        with suppress(OSError):  # for people; the lock holds without it
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{dream}, process {os.getpid()}\n".encode(), 0)
        self._held = (dream, lock)

    def let_go(self, dream: str = "") -> None:
        """Unlock, if this dream (none named: any) has the lock."""
        if self._held and dream in ("", self._held[0]):
            self._held[1].close()
            self._held = None

    # ---- doing -------------------------------------------------------------------------------------------

    def dream(self, id: str, stages: Sequence[Stage], since: str = "") -> Dreamt:
        """All of these stages, without a document; finished ones are skipped."""
        try:
            for stage in stages:
                self.do(id, stage.name, since)
        finally:
            self.let_go(id)
        return self.brain.shelf.get(Dreamt, id) or Dreamt(id=id)

    def do(self, id: str, name: str, since: str = "") -> Done:
        """One stage of a dream; what it did, also if that was earlier."""
        stage = self.stages.get(name)
        if stage is None:
            raise UsageError(f"there is no stage {name}; there are {', '.join(self.stages)}")
        self.hold(id)
        self.archive.finish_undo(self.brain)
        known = self.brain.shelf.get(Dreamt, id)
        done = known.stages.get(name) if known else None
        if done is None:
            known = known or Dreamt(id=id, at=self.clock().isoformat(timespec="seconds"), since=since)
            done = self._do(known, stage)
        if done.counts.get(WORSE):  # less is found than before: undo all that this dream did so far
            known = self.brain.shelf.get(Dreamt, id)
            if known:
                self.archive.take_back(self.brain, known)
        return done

    def _do(self, known: Dreamt, stage: Stage) -> Done:
        ahead, spent = (Ahead(self.asking), self.asking.spent()) if self.asking else (None, None)
        work = _Work(stage, ahead, self.archive.recover(self.brain), spent)
        work.part = f"{stage.name}/{token_hex(6)}"
        while (found := self._tried(known, work)) is None:
            if work.ahead:
                work.ahead.catch_up()
        return found

    def _tried(self, known: Dreamt, work: _Work) -> Done | None:
        """One attempt; None, and nothing of it is left, if a model must be asked first."""
        work.files = self.archive.seen()
        work.tries -= 1
        self.archive.begin(known.id, work.part, work.files)
        done = None
        try:
            with suppress(_RollBack), self.brain.shelf.transaction():
                done = self._in_transaction(known, work)
        except BaseException:
            self.archive.restore(known.id, work.files)
            self.archive.end()  # only now: what could not be restored, the next stage recovers
            raise
        finally:
            self.brain.refresh()
        self.archive.end()
        return done

    def _in_transaction(self, known: Dreamt, work: _Work) -> Done:
        """The stage; its before-images are on the disk before the transaction is committed."""
        shelf = self.brain.shelf
        noting = Noting(shelf.keeper)
        shelf.keeper = cast(Keeper, noting)
        try:
            at = datetime.fromisoformat(known.at)
            told = work.stage.run(Dream(known.id, self.brain, shelf, at, known.since, work.ahead, work.waits))
            if work.waits():
                raise _RollBack
            changed = [*noting.changed(work.part), *self.archive.changed_files(work.part, work.files)]
        finally:
            shelf.keeper = noting.inner
        self.archive.keep(known.id, changed)
        done = _done(told, work.part, self.clock(), len(changed), work.began, work.restored)
        if self.asking and work.spent is not None:
            trouble, asked = tuple(self.asking.troubles), self.asking.told(work.spent)
            done = done.model_copy(update={"asked": asked, "trouble": trouble})
            self.asking.troubles.clear()
        shelf.put(known.model_copy(update={"stages": {**known.stages, work.stage.name: done}}))
        return done

    def undo(self) -> Undone:
        """Take back the last dream. Raises `UsageError` if there is none."""
        self.hold("undo")
        try:
            self.archive.recover(self.brain)
            undone = self.archive.finish_undo(self.brain)
            if undone is None:
                last = self.last()
                if last is None:
                    raise UsageError("there is no dream to undo")
                undone = self.archive.take_back(self.brain, last)
            return undone
        finally:
            self.let_go("undo")

    def last(self) -> Dreamt | None:
        """The dream that did something last."""
        dreams = [each for each in self.brain.shelf.scan(Dreamt) if each.stages]
        return max(dreams, key=lambda each: (each.latest, each.id), default=None)

    # ---- rehearsing --------------------------------------------------------------------------------------

    def rehearse(self, stages: Sequence[Stage], since: str = "") -> list[Rehearsed]:
        """What these stages would do, without a model; no row and no file changes."""
        found: list[Rehearsed] = []
        at = self.clock()
        with tempfile.TemporaryDirectory(prefix="fractal-dream-") as place:
            state = state_of(self.memory)
            for folder in (space_of(state, DEFAULT), *sorted((state / "spaces").glob("*/memory"))):
                for each in (folder / name for name in FILES):
                    if each.is_dir():
                        shutil.copytree(each, Path(place) / each.relative_to(state))
            copy = Path(place) / self.memory.relative_to(state)
            brain, files = self.brain.elsewhere(copy), Archive(copy)
            shelf = brain.shelf
            with suppress(_RollBack), shelf.transaction():
                for stage in stages:
                    noting, before, began = Noting(shelf.keeper), files.seen(), time.monotonic()
                    shelf.keeper = cast(Keeper, noting)
                    try:
                        told = stage.run(Dream("rehearsal", brain, shelf, at, since))
                    finally:
                        shelf.keeper = noting.inner
                    changed = len(noting.changed("")) + len(files.changed_files("", before))
                    found.append(Rehearsed(stage, _done(told, "", at, changed, began)))
                raise _RollBack
        self.brain.refresh()
        return found


def _done(
    told: Told, part: str, at: datetime, changed: int, began: float, restored: Sequence[str] = ()
) -> Done:
    repaired = tuple(f"restored {name}, which a killed process had left half done" for name in restored)
    return Done(
        part=part,
        at=at.isoformat(),
        did=(*repaired, *told.did),
        counts=dict(told.counts),
        form=told.form,
        changed=changed,
        seconds=round(time.monotonic() - began, 3),
    )
