"""One trial: start the run, let it die at one point (or two), go on until it has ended, and judge."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.crash import faults, looking, scenario
from bench.crash.server import ModelServer, Request
from kernel.errors import Exit

SESSIONS = 12
"""Commands that a trial may take at most."""
Files = Mapping[str, bytes]
_ASKED = re.compile(r"\((\w+)[^\n]*\) was interrupted and may have happened.*?--assume (\S+)=", re.DOTALL)


@dataclass(frozen=True)
class Ended:
    """How one command ended."""

    exit: int
    seconds: float
    calls: tuple[str, ...]
    left: int
    hung: bool
    told: str

    @property
    def died(self) -> bool:
        """By a fault or by SIGKILL."""
        return self.exit in (faults.EXIT, -9)


@dataclass(frozen=True)
class Death:
    """Where a command dies: at which call, before, half-way or after it; or after so many seconds."""

    at: int = 0
    where: str = "before"
    kill: float = 0.0


@dataclass(frozen=True)
class Point:
    """What is tried: the death of a stage (run, answer, resume), and of the first command after it."""

    name: str
    stage: str
    death: Death
    again: Death | None = None
    fresh: bool = False  # each command a new interpreter, not a fork of one that has imported everything


@dataclass(frozen=True)
class Goal:
    """What an undisturbed run came to, and the calls and seconds of each of its stages."""

    status: str
    output: str
    files: Files
    calls: Mapping[str, tuple[str, ...]]
    seconds: Mapping[str, float]


@dataclass
class Outcome:
    """What came of one trial; every list is empty when all went well."""

    point: str
    kind: str = ""
    died: list[str] = field(default_factory=list[str])  # the calls it died at
    finished: bool = False
    repeated_calls: list[str] = field(default_factory=list[str])
    repeated_steps: list[str] = field(default_factory=list[str])
    unreadable: list[str] = field(default_factory=list[str])
    temporary_files: list[str] = field(default_factory=list[str])
    ledger_broken: list[str] = field(default_factory=list[str])
    different_result: list[str] = field(default_factory=list[str])
    in_flight: int = 0  # calls that were under way and made again, as they may be
    asked: list[str] = field(default_factory=list[str])  # steps that a person had to look at
    left: int = 0  # processes that outlived a death
    words: list[str] = field(default_factory=list[str])  # the commands, for who looks into a failure

    @property
    def good(self) -> bool:
        """Nothing lost, nothing done twice."""
        return self.finished and not any(getattr(self, name) for name in FAULTS)


FAULTS = (
    *("repeated_calls", "repeated_steps", "unreadable", "temporary_files", "ledger_broken"),
    "different_result",
)


class Nursery:
    """The process that forks the commands; one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.crash.victim"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, words: list[str], environ: Mapping[str, str], death: Death, **more: Any) -> Ended:
        """One command from its start to its end."""
        out = self.folder / "command"
        request = {"words": words, "environ": dict(environ), "out": str(out), "every": False, **more}
        said = self._ask(request | {"at": death.at, "where": death.where, "kill": death.kill})
        told = out.with_suffix(".err").read_text("utf-8", "replace")
        return Ended(
            said["exit"], said["seconds"], tuple(said["calls"]), said["left"], bool(said["hung"]), told
        )

    def warm(self, names: Path) -> None:
        """Import what a command had imported at its end."""
        self._ask({"import": str(names)})

    def close(self) -> None:
        """End it."""
        self._process.communicate()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that forks the commands has died")
        return json.loads(line)


class Trial:
    """One workspace, one run, from its start to its end through whatever happens to it."""

    def __init__(self, nursery: Nursery, server: ModelServer, name: str, sandbox: str) -> None:
        self.nursery, self.server, self.name = nursery, server, name
        self.work = nursery.folder / name
        self.environ = scenario.environment(server.url(name), sandbox)
        self.outcome = Outcome(name)
        self.sessions = 0
        self._deaths: list[tuple[int, looking.Seen]] = []

    def undisturbed(self, **more: Any) -> Goal:
        """The run as it should go, every call of it told; `more` of what the commands are asked for with."""
        scenario.lay_out(self.work)
        calls: dict[str, tuple[str, ...]] = {}
        seconds: dict[str, float] = {}
        for stage in ("run", "answer", "resume"):
            ended = self._command(self._words(""), Death(), every=True, **more)
            calls[stage], seconds[stage] = ended.calls, ended.seconds
        folder = looking.run_of(self.work)
        root = looking.root_of(folder) if folder else None
        if root is None or root.meta.status != "complete":
            raise RuntimeError(f"the undisturbed run did not end well: {ended.told}")
        return Goal(root.meta.status, root.text(5, "result"), looking.files(self.work), calls, seconds)

    def disturbed(self, point: Point, goal: Goal, meddle: Callable[[Path], object] | None = None) -> Outcome:
        """The run with a death in it; what it came to is compared with the goal.

        `meddle` does something to the folder after each death.
        """
        scenario.lay_out(self.work)
        deaths = [point.death, *([point.again] if point.again else [])]
        assume = ""
        while self.sessions < SESSIONS and (words := self._words(assume)):
            here = deaths and (words[0] == point.stage or self._deaths)
            ended = self._command(words, deaths.pop(0) if here else Death(), fresh=point.fresh)
            if ended.died and meddle:
                meddle(self.work)
            asked = _ASKED.search(ended.told) if ended.exit == Exit.WAITING else None
            assume = self._assumption(asked[1], asked[2]) if asked else ""
        self._judge(goal)
        return self.outcome

    def _words(self, assume: str) -> list[str]:
        """What a person would type next; empty when the run has ended."""
        folder = looking.run_of(self.work)
        if folder is None:
            return ["run", scenario.TASK]
        root = looking.root_of(folder)
        if root.ended:  # whoever saw it die goes on with it all the same
            died = self._deaths and self._deaths[-1][0] == self.sessions
            return ["resume", folder.name] if died else []
        asked = (root.meta.waiting or {}).get("question") == scenario.QUESTION
        if asked and not list((folder / "inbox").glob("[0-9]*.json")):
            return ["answer", folder.name, scenario.ANSWER]
        return ["resume", folder.name, *(["--assume", assume] if assume else [])]

    def _command(self, words: list[str], death: Death, **more: Any) -> Ended:
        self.sessions += 1
        self.server.session(self.name, self.sessions)
        ended = self.nursery.run(["-C", str(self.work), *words], self.environ, death, **more)
        outcome = self.outcome
        outcome.words.append(f"{' '.join(words)} → {ended.exit}")
        outcome.left += ended.left
        folder = looking.run_of(self.work)
        seen = looking.look(folder) if folder else looking.Seen()
        outcome.unreadable += seen.unreadable
        outcome.ledger_broken += seen.broken
        if ended.died:
            outcome.died.append(_plain(ended.calls[-1] if ended.calls and death.at else "SIGKILL", self.work))
            self._deaths.append((self.sessions, seen))
        elif ended.hung or ended.exit not in (Exit.ACCEPTED, Exit.WAITING):
            outcome.different_result.append(f"{words[0]}: exit {ended.exit}: {ended.told[-400:]}")
        return ended

    def _assumption(self, tool: str, place: str) -> str:
        """What a person says who looks whether the command in question happened."""
        folder = looking.run_of(self.work)
        said = looking.happened(folder, self.work, place) if folder else ""
        self.outcome.asked.append(f"{tool} {said}")
        if not said:
            self.outcome.different_result.append(
                f"{tool} had to be asked about, and its files show what it did"
            )
        return f"{place}={said or 'rerun'}"

    def _judge(self, goal: Goal) -> None:
        outcome, folder = self.outcome, looking.run_of(self.work)
        root = looking.root_of(folder) if folder else None
        outcome.finished = root is not None and root.ended
        if root is None or not outcome.finished:
            outcome.different_result.append("it did not end")
            return
        if (root.meta.status, root.text(5, "result")) != (goal.status, goal.output):
            why = root.text(5, "error") or root.text(5, "escalation")
            outcome.different_result.append(
                f"{root.meta.status}: {root.text(5, 'result')[:200]!r} {why[:300]}"
            )
        outcome.different_result += _differences(goal.files, looking.files(self.work))
        outcome.repeated_steps += looking.twice(self.work)
        outcome.temporary_files += looking.left_over(self.work)
        requests = self.server.requests(self.name)
        self._judge_calls(requests)
        if folder and len(requests) > looking.look(folder).charged:
            outcome.ledger_broken.append(f"{len(requests)} requests were made, fewer were charged")

    def _judge_calls(self, requests: list[Request]) -> None:
        outcome = self.outcome
        for session in range(1, self.sessions + 1):
            counts = Counter(each.digest for each in requests if each.session == session)
            outcome.repeated_calls += [f"{each} twice in one session" for each, n in counts.items() if n > 1]
        for session, seen in self._deaths:
            before = {each.digest for each in requests if each.session <= session}
            after = {each.digest for each in requests if each.session > session}
            again = before & after
            outcome.repeated_calls += [f"{each} was finished" for each in again & seen.finished]
            loops = Counter(seen.loops.get(each, "?") for each in again)
            outcome.repeated_calls += [f"{n} of {loop} again" for loop, n in loops.items() if n > 1]
            outcome.in_flight += len(again - seen.finished)

    def clean(self) -> None:
        """Remove the workspace."""
        shutil.rmtree(self.work, ignore_errors=True)


def _plain(call: str, work: Path) -> str:
    """A call's name and file, without what differs from run to run."""
    text = call.replace(f"{work}/", "")
    text = re.sub(r"\.[0-9a-f]{8}\.tmp", ".*.tmp", text)
    run = looking.run_of(work)
    return text.replace(run.name, "RUN") if run else re.sub(r"(?<=runs/)\w+", "RUN", text)


def _differences(goal: Files, found: Files) -> list[str]:
    gone = [f"{name}: missing" for name in goal if name not in found]
    new = [f"{name}: not in the undisturbed run" for name in found if name not in goal]
    other = [f"{name}: other" for name in goal if found.get(name, goal[name]) != goal[name]]
    return [*gone, *new, *other]
