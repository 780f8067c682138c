"""One trial: start the run, let it die at one point (or two), resume it until it has ended, and judge it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.crash import faults, looking, scenario
from bench.crash.server import ModelServer
from kernel.errors import Exit

SESSIONS = 12
"""The most commands of a trial."""
_ASKED = re.compile(r"\((\w+)[^\n]*\) was interrupted and may have happened.*?--assume (\S+)=", re.DOTALL)


@dataclass(frozen=True)
class Ended:
    """The end of one command."""

    exit: int
    seconds: float
    calls: tuple[str, ...]
    left: int
    hung: bool
    stderr: str

    @property
    def died(self) -> bool:
        """Whether it died of a fault or of SIGKILL."""
        return self.exit in (faults.EXIT, -9)


@dataclass(frozen=True)
class Death:
    """Where a command dies: before, half-way through or after a call; or after so many seconds."""

    at: int = 0
    where: str = "before"
    kill: float = 0.0
    match: str = ""  # a regular expression for the calls that `at` counts; all of them by default


@dataclass(frozen=True)
class Point:
    """A death in a stage (run, answer, resume), and perhaps another one in the command after it."""

    name: str
    stage: str
    death: Death
    again: Death | None = None
    fresh: bool = False  # each command is a new interpreter, not a fork of one that has imported everything


@dataclass(frozen=True)
class Goal:
    """The result of an undisturbed run, and the calls and seconds of each of its stages."""

    status: str
    output: str
    files: Mapping[str, bytes]
    calls: Mapping[str, tuple[str, ...]]
    seconds: Mapping[str, float]


@dataclass
class Outcome:
    """The outcome of one trial; the lists named in `FAULTS` are empty if all went well."""

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
    in_flight: int = 0  # calls that were in flight at a death and made again, which is allowed
    asked: list[str] = field(default_factory=list[str])  # steps that a person had to check
    left: int = 0  # processes that outlived a death
    words: list[str] = field(default_factory=list[str])  # the commands, to debug a failure

    @property
    def good(self) -> bool:
        """Whether nothing was lost and nothing repeated."""
        return self.finished and not any(getattr(self, name) for name in FAULTS)


FAULTS = (
    *("repeated_calls", "repeated_steps", "unreadable", "temporary_files", "ledger_broken"),
    "different_result",
)


class Nursery:
    """The process that forks the commands, one at a time (`victim`)."""

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
        """Run one command to its end."""
        out = self.folder / "command"
        request = {"words": words, "environ": dict(environ), "out": str(out), "every": False, **more}
        reply = self._ask(request | asdict(death))
        stderr = out.with_suffix(".err").read_text("utf-8", "replace")
        return Ended(calls=tuple(reply.pop("calls")), stderr=stderr, **reply)

    def warm(self, names: Path) -> None:
        """Import what a command had imported at its end."""
        self._ask({"import": str(names)})

    def close(self) -> None:
        """End the process."""
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
    """One workspace with one run, from its start to its end."""

    def __init__(self, nursery: Nursery, server: ModelServer, name: str, sandbox: str) -> None:
        self.nursery, self.server, self.name = nursery, server, name
        self.work = nursery.folder / name
        self.environ = scenario.environment(server.url(name), sandbox)
        self.outcome = Outcome(name)
        self.sessions = 0
        self._deaths: list[tuple[int, looking.State]] = []

    def undisturbed(
        self, warm: Callable[[Path], object] | None = None, imports: Path | None = None, **more: Any
    ) -> Goal:
        """The run without a death, with a log of every call; `more` is passed with each command.

        What a command has imported, `warm` has the next ones import beforehand.
        """
        scenario.lay_out(self.work)
        calls: dict[str, tuple[str, ...]] = {}
        seconds: dict[str, float] = {}
        for stage in ("run", "answer", "resume"):
            names = {"imports": str(imports)} if imports else {}
            ended = self._command(self._words(""), Death(), every=True, **names, **more)
            if warm and imports:
                warm(imports)
            calls[stage], seconds[stage] = ended.calls, ended.seconds
        folder = looking.run_of(self.work)
        root = looking.root_of(folder) if folder else None
        if root is None or root.meta.status != "complete":
            raise RuntimeError(f"the undisturbed run failed: {ended.stderr}")
        result = root.text(5, "result")
        return Goal(root.meta.status, result, looking.files_of(self.work), calls, seconds)

    def disturbed(self, point: Point, goal: Goal, meddle: Callable[[Path], object] | None = None) -> Outcome:
        """The run with a death, compared with the goal; `meddle` changes the folder after each death."""
        scenario.lay_out(self.work)
        deaths = [point.death, *([point.again] if point.again else [])]
        assume = ""
        while self.sessions < SESSIONS and (words := self._words(assume)):
            here = deaths and (words[0] == point.stage or self._deaths)
            ended = self._command(words, deaths.pop(0) if here else Death(), fresh=point.fresh)
            if ended.died and meddle:
                meddle(self.work)
            asked = _ASKED.search(ended.stderr) if ended.exit == Exit.WAITING else None
            assume = self._assumption(asked[1], asked[2]) if asked else ""
        self._judge(goal)
        shutil.rmtree(self.work, ignore_errors=True)
        return self.outcome

    def _words(self, assume: str) -> list[str]:
        """What a person would type next; empty when the run has ended."""
        folder = looking.run_of(self.work)
        if folder is None:
            return ["run", scenario.TASK]
        root = looking.root_of(folder)
        if root.ended:  # a person who saw the command die resumes the run even so
            died = self._deaths and self._deaths[-1][0] == self.sessions
            return ["resume", folder.name] if died else []
        asked = (root.meta.waiting or {}).get("question") == scenario.QUESTION
        if asked and not list((folder / "inbox").glob("[0-9]*.json")):
            return ["answer", folder.name, scenario.ANSWER]
        return ["resume", folder.name, *(["--assume", assume] if assume else [])]

    def _command(self, words: list[str], death: Death, **more: Any) -> Ended:
        self.sessions += 1
        self.server.begin_session(self.name, self.sessions)
        ended = self.nursery.run(["-C", str(self.work), *words], self.environ, death, **more)
        outcome = self.outcome
        outcome.words.append(f"{' '.join(words)} → {ended.exit}")
        outcome.left += ended.left
        folder = looking.run_of(self.work)
        state = looking.state_of(folder) if folder else looking.State()
        outcome.unreadable += state.unreadable
        outcome.ledger_broken += state.broken
        if ended.died:
            last = ended.calls[-1] if ended.calls and death.at else "SIGKILL"
            outcome.died.append(_normalised(last, self.work))
            self._deaths.append((self.sessions, state))
        elif ended.hung or ended.exit not in (Exit.ACCEPTED, Exit.WAITING):
            outcome.different_result.append(f"{words[0]}: exit {ended.exit}: {ended.stderr[-400:]}")
        return ended

    def _assumption(self, tool: str, place: str) -> str:
        """What a person answers who checks whether the command in question has happened."""
        folder = looking.run_of(self.work)
        effect = looking.effect_of(folder, self.work, place) if folder else ""
        self.outcome.asked.append(f"{tool} {effect}")
        if not effect:
            self.outcome.different_result.append(f"asked about {tool}, although its files show what it did")
        return f"{place}={effect or 'rerun'}"

    def _judge(self, goal: Goal) -> None:
        outcome, folder = self.outcome, looking.run_of(self.work)
        root = looking.root_of(folder) if folder else None
        outcome.finished = root is not None and root.ended
        if folder is None or root is None or not outcome.finished:
            outcome.different_result.append("it did not end")
            return
        result = root.text(5, "result")
        if (root.meta.status, result) != (goal.status, goal.output):
            why = root.text(5, "error") or root.text(5, "escalation")
            outcome.different_result.append(f"{root.meta.status}: {result[:200]!r} {why[:300]}")
        outcome.different_result += _differences(goal.files, looking.files_of(self.work))
        outcome.repeated_steps += looking.repeated(self.work)
        outcome.temporary_files += looking.temporary_files(self.work)
        requests, charged = self._judge_calls(), looking.state_of(folder).charged
        if requests > charged:
            outcome.ledger_broken.append(f"{requests} requests were made, {charged} were charged")

    def _judge_calls(self) -> int:
        """Find repeated calls; returns the number of all requests."""
        outcome, requests = self.outcome, self.server.requests(self.name)
        for session in range(1, self.sessions + 1):
            counts = Counter(each.digest for each in requests if each.session == session)
            outcome.repeated_calls += [f"{each} twice in one session" for each, n in counts.items() if n > 1]
        for session, state in self._deaths:
            before = {each.digest for each in requests if each.session <= session}
            after = {each.digest for each in requests if each.session > session}
            again = before & after
            outcome.repeated_calls += [f"{each} was finished" for each in again & state.finished]
            loops = Counter(state.loops.get(each, "?") for each in again)
            outcome.repeated_calls += [f"{n} of {loop} again" for loop, n in loops.items() if n > 1]
            outcome.in_flight += len(again - state.finished)
        return len(requests)


def _normalised(call: str, work: Path) -> str:
    """The name and file of a call, without what differs from run to run."""
    text = call.replace(f"{work}/", "")
    text = re.sub(r"\.[0-9a-f]{8}\.tmp", ".*.tmp", text)
    text = re.sub(r"[0-9a-f]{16,}", "*", text)  # digests: the folder of the snapshots, and the snapshots
    run = looking.run_of(work)
    return text.replace(run.name, "RUN") if run else re.sub(r"(?<=runs/)\w+", "RUN", text)


def _differences(goal: Mapping[str, bytes], files: Mapping[str, bytes]) -> list[str]:
    missing = [f"{name}: missing" for name in goal if name not in files]
    new = [f"{name}: not in the undisturbed run" for name in files if name not in goal]
    other = [f"{name}: different" for name in goal if files.get(name, goal[name]) != goal[name]]
    return [*missing, *new, *other]
