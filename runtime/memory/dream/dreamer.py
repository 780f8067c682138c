"""Does the stages of a dream, one by one: each in one transaction, archived first, told in the same one.

A stage that was done is never done again, so a dream that was killed goes on where it was. A stage that wants
to ask a model is rolled back, the model is asked, and the stage is tried again with the reply: nobody who
wants to write waits for a model. A rehearsal does the same in a transaction that is rolled back, on copies of
the files.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

from kernel import disk
from kernel.errors import UsageError
from runtime.memory.dream.archive import FILES, FOLDER, Archive, Kept, Noting, mark, to_line
from runtime.memory.dream.record import Done, Dreamt
from runtime.memory.dream.stage import Dream, Stage, Told
from runtime.memory.dream.stages import ALL
from runtime.memory.prompting import Ahead
from runtime.places import DEFAULT, space_of, state_of
from runtime.store.shelf import Keeper

if TYPE_CHECKING:
    from kernel.spending import Totals
    from runtime.memory.brain import Brain
    from runtime.memory.prompting import Asking

LOCK = "dream.lock"
BEGUN = "begun.json"
"""Which stage is at work, and what the files were when it began."""
WORSE = "worse"
"""What a stage counts that finds the memory worse than it was before the dream."""
TRIES = 4
"""Of a stage that asks a model, as a question may hang on earlier replies; the last takes what is known."""
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
    """A stage at work."""

    stage: Stage
    part: str
    put_back: Sequence[str]
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # as they were
    began: float = field(default_factory=time.monotonic)
    before: Totals | None = None  # what was spent
    ahead: Ahead | None = None
    tries: int = TRIES  # that are left

    def waits(self) -> bool:
        """Whether a model is to be asked before this can be done."""
        return self.tries > 0 and self.ahead is not None and self.ahead.wants

    def catch_up(self) -> None:
        """Ask it."""
        if self.ahead:
            self.ahead.catch_up()


class _Enough(Exception):
    """The rehearsal is over, or a model is to be asked first; everything is rolled back."""


def _folders(state: Path) -> list[Path]:
    """Where the files of all spaces lie."""
    spaces = [space_of(state, DEFAULT), *sorted((state / "spaces").glob("*/memory"))]
    return [each / name for each in spaces for name in FILES if (each / name).is_dir()]


class Dreamer:
    """Dreams over one brain; one dream at a time on one memory, whatever process it is in."""

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
        self.archive = Archive(self.memory, fsync=brain.settings.fsync)
        self._held: tuple[str, int] | None = None

    # ---- one dream at a time -----------------------------------------------------------------------------

    def hold(self, dream: str) -> None:
        """Be the one that dreams here, until `let_go`, or the end of the process. Raises `UsageError`."""
        if self._held:
            if self._held[0] != dream:
                raise UsageError(f"a dream is at work here ({self._held[0]}); one at a time")
            return
        path = self.memory / LOCK
        with disk.of_the_state(path):
            self.memory.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
            os.close(handle)
            raise UsageError(f"a dream is at work here ({owner or 'unknown'}); one at a time") from None
        with suppress(OSError):  # for people; the lock holds without it
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{dream}, process {os.getpid()}\n".encode(), 0)
        self._held = (dream, handle)

    def let_go(self, dream: str = "") -> None:
        """The dream has ended, or rests; without a name whichever it is."""
        if self._held and dream in ("", self._held[0]):
            os.close(self._held[1])
            self._held = None

    # ---- doing -------------------------------------------------------------------------------------------

    def dream(self, id: str, stages: Sequence[Stage], since: str = "") -> Dreamt:
        """All of these stages, without a document; one that was done is passed over."""
        try:
            for stage in stages:
                self.do(id, stage.name, since)
        finally:
            self.let_go(id)
        return self.brain.shelf.get(Dreamt, id) or Dreamt(id=id)

    def do(self, id: str, name: str, since: str = "") -> Done:
        """One stage of a dream; what it did, also when that was earlier."""
        stage = self.stages.get(name)
        if stage is None:
            raise UsageError(f"there is no stage {name}; there are {', '.join(self.stages)}")
        self.hold(id)
        self._finish()
        shelf = self.brain.shelf
        known = shelf.get(Dreamt, id)
        if known and name in known.stages:
            if known.stages[name].counts.get(WORSE):  # killed before it was taken back
                self._take_back(id)
            return known.stages[name]
        work = _Work(stage, f"{name}/{token_hex(6)}", self.mend())
        if self.asking:
            work.before, work.ahead = self.asking.spent(), Ahead(self.asking)
        known = known or Dreamt(id=id, at=self.clock().isoformat(timespec="seconds"), since=since)
        while (done := self._tried(known, work)) is None:
            work.catch_up()
        if done.counts.get(WORSE):
            self._take_back(id)
        return done

    def _tried(self, known: Dreamt, work: _Work) -> Done | None:
        """One try; nothing of it is left, and None is the answer, where a model is to be asked first.

        What asks works on rows alone: the files that others have written meanwhile stay as they are.
        """
        work.files = self.archive.seen()
        work.tries -= 1
        self._begin(known.id, work)
        done = None
        try:
            with suppress(_Enough), self.brain.shelf.transaction():
                done = self._done(known, work)
        except BaseException:
            self._restore(known.id, work.files)
            self.archive.remove(BEGUN)  # only now: what could not be put back, `mend` puts back
            raise
        finally:
            self.brain.refresh()
        self.archive.remove(BEGUN)
        return done

    def _take_back(self, id: str) -> None:
        """Less is found than before: all that this dream has done so far is undone; later stages go on."""
        from runtime.memory.dream.undoing import take_back

        known = self.brain.shelf.get(Dreamt, id)
        if known:
            take_back(self, known)

    def _finish(self) -> None:
        """An undo that was cut short comes before anything else."""
        from runtime.memory.dream.undoing import finish

        finish(self)

    def _done(self, known: Dreamt, work: _Work) -> Done:
        """The stage in an open transaction; its lines are on the disk before it is committed."""
        shelf = self.brain.shelf
        noting = Noting(shelf.keeper)
        shelf.keeper = cast(Keeper, noting)
        try:
            at = datetime.fromisoformat(known.at)
            told = work.stage.run(Dream(known.id, self.brain, shelf, at, known.since, work.ahead, work.waits))
            if work.waits():
                raise _Enough
            changed = [*noting.changed(work.part), *self._changed_files(work.part, work.files)]
        finally:
            shelf.keeper = noting.inner
        self.archive.add(known.id, [to_line(each) for each in changed])
        spent = self.asking.told(work.before) if self.asking and work.before is not None else {}
        took, trouble = time.monotonic() - work.began, self._troubles()
        done = _done(told, work.part, self.clock(), len(changed), took, spent, trouble, work.put_back)
        shelf.put(known.model_copy(update={"stages": {**known.stages, work.stage.name: done}}))
        return done

    def _troubles(self) -> tuple[str, ...]:
        if not self.asking:
            return ()
        found = tuple(self.asking.troubles)
        self.asking.troubles.clear()
        return found

    # ---- files -------------------------------------------------------------------------------------------

    def _begin(self, id: str, work: _Work) -> None:
        """Before a stage begins, what it might write over is on the disk: each content once a dream."""
        files = work.files
        held = {line.get("held") for line in self.archive.lines(id) if "held" in line} if files else set()
        new = {mark(raw): raw for raw in files.values()}
        self.archive.add(id, [_held(raw) for sha, raw in new.items() if sha not in held])
        told = {"dream": id, "part": work.part, "files": {name: mark(raw) for name, raw in files.items()}}
        self.archive.write(BEGUN, json.dumps(told).encode())

    def mend(self) -> list[str]:
        """What a killed process had made of files in a stage that was not committed is taken back."""
        try:
            begun: Any = json.loads(self.archive.read(f"{FOLDER}/{BEGUN}") or b"null")
        except ValueError:
            begun = None
        if begun is None:
            return []
        known = self.brain.shelf.get(Dreamt, begun["dream"])
        put_back: list[str] = []
        if begun["part"] not in {each.part for each in (known.stages if known else {}).values()}:
            lines = self.archive.lines(begun["dream"])
            held = {line["held"]: _raw(line) for line in lines if "held" in line}
            files = {name: held[sha] for name, sha in begun["files"].items() if sha in held}
            put_back = self._restore(begun["dream"], files)
        self.archive.remove(BEGUN)
        return put_back

    def _restore(self, id: str, files: Mapping[str, bytes]) -> list[str]:
        """Make the files what they were; what stands there now is kept in the archive as well."""
        now = self.archive.seen()
        wrong = [name for name in sorted({*now, *files}) if now.get(name) != files.get(name)]
        self.archive.add(id, [{**_held(now[name]), "aside": name} for name in wrong if name in now])
        for name in wrong:
            self.archive.put_back(name, files.get(name))
        return wrong

    def _changed_files(self, part: str, before: Mapping[str, bytes]) -> list[Kept]:
        now = self.archive.seen()
        names = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
        return [Kept(part, before.get(name), mark(now.get(name)), file=name) for name in names]

    # ---- rehearsing --------------------------------------------------------------------------------------

    def rehearse(self, stages: Sequence[Stage], since: str = "") -> list[Rehearsed]:
        """What these stages would do; no row and no file is changed by it. No model is asked."""
        found: list[Rehearsed] = []
        known = Dreamt(id="rehearsal", at=self.clock().isoformat(timespec="seconds"), since=since)
        with tempfile.TemporaryDirectory(prefix="fractal-dream-") as place:
            state = state_of(self.memory)
            copy = Path(place) / self.memory.relative_to(state)
            for found_in in _folders(state):
                shutil.copytree(found_in, Path(place) / found_in.relative_to(state))
            brain = self.brain.elsewhere(copy)
            files = Archive(copy)
            with suppress(_Enough), brain.shelf.transaction():
                for stage in stages:
                    found.append(self._rehearsed(stage, brain, known, files))
                raise _Enough
        self.brain.refresh()
        return found

    def _rehearsed(self, stage: Stage, brain: Brain, known: Dreamt, files: Archive) -> Rehearsed:
        noting, before, began = Noting(brain.shelf.keeper), files.seen(), time.monotonic()
        brain.shelf.keeper = cast(Keeper, noting)
        at = datetime.fromisoformat(known.at)
        try:
            told = stage.run(Dream(known.id, brain, brain.shelf, at, known.since))
            changed = len(noting.changed("")) + sum(
                before.get(name) != raw for name, raw in {**dict.fromkeys(before), **files.seen()}.items()
            )
        finally:
            brain.shelf.keeper = noting.inner
        return Rehearsed(stage, _done(told, "", at, changed, time.monotonic() - began, {}, (), ()))

    # ---- what was done -----------------------------------------------------------------------------------

    def last(self) -> Dreamt | None:
        """The dream that did something last."""
        dreams = [each for each in self.brain.shelf.scan(Dreamt) if each.stages]
        return max(dreams, key=lambda each: (each.latest, each.id), default=None)


def _done(
    told: Told,
    part: str,
    at: datetime,
    changed: int,
    seconds: float,
    asked: Mapping[str, Any],
    trouble: Sequence[str],
    put_back: Sequence[str],
) -> Done:
    mended = tuple(f"put back {name}, which a killed process had left half done" for name in put_back)
    return Done(
        part=part,
        at=at.isoformat(),
        did=(*mended, *told.did),
        counts=dict(told.counts),
        form=told.form,
        changed=changed,
        seconds=round(seconds, 3),
        asked=dict(asked),
        trouble=tuple(trouble),
    )


def _held(raw: bytes) -> dict[str, Any]:
    from base64 import b64encode

    return {"held": mark(raw), "raw": b64encode(raw).decode()}


def _raw(line: Mapping[str, Any]) -> bytes:
    from base64 import b64decode

    return b64decode(line["raw"])
