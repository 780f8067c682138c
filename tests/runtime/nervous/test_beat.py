"""The heartbeat: tasks are begun once, replies are taken up, interrupted work goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lanes import async_pause, async_until, every, pause, until, within
from playing import ACCEPT, plan, write
from warm import Process

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import ConfigurationError, UsageError
from runtime.api.beating import AT_ONCE, Beat
from runtime.api.fractal import Fractal
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.nervous.messages import Message
from runtime.workspace.deciders import TERMINAL, Decider
from runtime.workspace.workspace import run_lock

WRITES = write("words.txt", "5\n")
CLIENT = Decider("client", "editor")
Make = Callable[..., Fractal]


def worker(ask: Ask) -> Any:
    """Plans to write a file; after a nudge, another one."""
    if ask.phase == "check":
        return ACCEPT
    name = "sums.txt" if "as sums" in prompt_text(ask) else "words.txt"
    return plan(write(name, "5\n"), success=[{"file": name, "has": "5"}])


@pytest.fixture
def fractal(tmp_path: Path) -> Make:
    def make(worker: Any = worker, oversight: Any = None, *, place: str = "work", **settings: Any) -> Fractal:
        rungs = [Scripted(worker, name="worker")]
        rungs += [Scripted(oversight, name="large", tier="oversight")] if oversight else []
        (tmp_path / place).mkdir(exist_ok=True)
        settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", **settings}
        return Fractal(tmp_path / place, settings=settings, ladder=Ladder((*rungs, Human())))

    return make


def beat(fractal: Fractal) -> list[str]:
    """One beat of a new process; the status of each run that it worked on."""
    beating = Beat(fractal, print)  # shown where a test fails
    asyncio.run(beating.run(0.01, once=True))
    return [each.status for each in beating.results]


def log(fractal: Fractal) -> list[tuple[str, str]]:
    """What the messages say, without those of the beat."""
    said = [each for each in fractal.nerves.messages.all() if not each.data.get("taken")]
    return [(each.tier, each.type) for each in said]


def waiting(fractal: Fractal, type: str = "proposal") -> Message:
    """The message that waits for a reply."""
    (found,) = [thread[0] for thread in fractal.nerves.messages.open() if thread[0].type == type]
    return found


def passes(ask: Ask) -> Any:
    return {"decision": "pass", "why": "only you know"}


def nudges_once(ask: Ask) -> Any:
    sent_back = "sums.txt" in prompt_text(ask)
    return {"decision": "approve" if sent_back else "nudge", "why": "" if sent_back else "as sums"}


def test_the_task_execution_flow(fractal: Make, tmp_path: Path) -> None:
    """Human writes a task, worker proposes, oversight nudges, then approves, worker executes, outcome."""
    one = fractal(oversight=nudges_once, review="always")
    task = one.send("write the sum of two and three", by=TERMINAL)
    assert beat(one) == ["complete"]
    assert log(one) == [
        ("human", "task"),
        ("worker", "proposal"),
        ("oversight", "nudge"),
        ("worker", "proposal"),
        ("oversight", "approve"),
        *[("worker", "outcome")] * 3,
    ]
    assert (tmp_path / "work" / "sums.txt").exists() and not (tmp_path / "work" / "words.txt").exists()
    outcome = one.nerves.messages.thread(task.id)[-1]
    assert (outcome.type, outcome.data["status"]) == ("outcome", "complete")
    assert outcome.text == "wrote sums.txt, 2 characters"
    assert one.nerves.messages.open() == [] and beat(one) == []


@pytest.mark.parametrize(
    ("kind", "text", "status", "written"),
    [
        ("approve", "", "complete", "words.txt"),
        ("nudge", "as sums", "waiting", ""),
        ("reject", "", "cancelled", ""),
        ("veto", "", "cancelled", ""),
    ],
)
def test_a_human_decides_what_oversight_passes_on(
    fractal: Make, tmp_path: Path, kind: str, text: str, status: str, written: str
) -> None:
    one = fractal(oversight=passes, review="always")
    task = one.send("write the sum of two and three", by=TERMINAL)
    assert beat(one) == ["waiting"]
    assert beat(one) == []  # nothing is new
    reply = one.reply(waiting(one).id[:8], kind, text, by=TERMINAL)
    assert beat(one) == [status]
    assert [path.name for path in (tmp_path / "work").glob("*.txt")] == ([written] if written else [])
    assert [each.id for each in one.nerves.messages.all(type=kind)] == [reply.id]
    closed = one.nerves.messages.thread(task.id)[-1].type == "outcome"
    assert closed == (status != "waiting")


def test_a_question_is_answered_by_id(fractal: Make) -> None:
    def asks(ask: Ask) -> Any:
        if "answer" in [note.key for note in ask.document.section(1).notes]:
            done = {"answer": "written", "checks": ["grep -q 5 words.txt"]}
            return {"calls": [WRITES, {"tool": "done", "args": done}]}
        return {**plan(), "steps": [], "success": [], "question": "which file?"}

    one = fractal(asks)
    one.send("write it")
    assert beat(one) == ["waiting"]
    one.reply(waiting(one, "question").id, "answer", "words.txt")
    assert beat(one) == ["complete"]


def test_a_rejected_run_is_not_carried_out_when_it_is_resumed(fractal: Make, tmp_path: Path) -> None:
    one = fractal(oversight=passes, review="always")
    one.send("write the sum")
    beat(one)
    asked = waiting(one)
    one.reply(asked.id, "reject", by=TERMINAL)
    assert beat(one) == ["cancelled"]
    assert asyncio.run(one.resume(asked.run)).status == "cancelled"
    assert not (tmp_path / "work" / "words.txt").exists()


def test_a_plan_that_is_made_anew_after_an_edit_is_reviewed(fractal: Make, tmp_path: Path) -> None:
    one = fractal(oversight=passes, review="always")
    one.send("write the sum")
    beat(one)
    asked = waiting(one)
    path = one.path(asked.run)
    said = "### guidance · person\n\n> in one file\n\n## §2 PLAN"
    path.write_text(path.read_text().replace("## §2 PLAN", said))
    assert asyncio.run(one.resume(asked.run)).waiting == "approval"
    assert len(one.nerves.messages.all(type="proposal")) == 2
    assert not (tmp_path / "work" / "words.txt").exists()


def test_replies_that_do_not_fit_are_refused(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always")
    task = one.send("write the sum")
    with pytest.raises(UsageError, match="waits for no reply"):
        one.reply(task.id, "approve")
    beat(one)
    id = waiting(one).id
    for kind, text, why in (
        ("answer", "x", "its replies are approve"),
        ("nudge", " ", "is empty"),
        ("nonsense", "", "is no reply"),
    ):
        with pytest.raises(UsageError, match=why):
            one.reply(id, kind, text)
    with pytest.raises(UsageError, match="no open message"):
        one.reply("ffffffffff", "approve")
    for say in (one.send, partial(one.reply, id, "nudge")):
        with pytest.raises(UsageError, match="write it to a file"):
            say("x" * 50_001)
    with pytest.raises(UsageError, match="write it to a file"):
        one.tell(waiting(one).run, "nudge", why="x" * 1_000_001)
    with pytest.raises(UsageError, match="task is empty"):
        one.send("  ")
    assert beat(one) == []


def test_a_program_may_not_approve_a_serious_danger(fractal: Make, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".env").write_text("KEY=1")
    reads = {"tool": "bash", "args": {"command": "cat .env; true"}}
    one = fractal(lambda ask: ACCEPT if ask.phase == "check" else plan(reads))
    one.send("show the settings")
    assert beat(one) == ["waiting"]
    asked = waiting(one)
    with pytest.raises(UsageError, match="serious danger"):
        one.reply(asked.id, "approve", by=CLIENT)
    # as another program may write it
    fields = {"type": "approve", "stream": "guidance", "in_reply_to": asked.id}
    one.nerves.messages.write(tier="human", sender="somebody", **fields)
    assert beat(one) == []
    one.reply(asked.id, "approve", by=TERMINAL)
    assert beat(one) == ["unverified"], "it ran, and nothing shows that it only looked"


def test_a_clients_task_waits_for_what_its_own_runs_wait_for(fractal: Make) -> None:
    one = fractal(approve=["write"])
    one.send("write the sum", by=CLIENT)
    assert beat(fractal()) == ["waiting"]
    asked = waiting(one)
    assert asked.sender == "default"
    client = one.reply(asked.id, "reject", "not so", by=CLIENT)
    one.reply(asked.id, "approve", by=TERMINAL)
    assert client.tier == "oversight"  # a human comes first
    assert beat(fractal()) == ["complete"]


def test_a_task_is_for_the_agent_that_it_names(fractal: Make) -> None:
    one = fractal(agents={"reviewer": {"calls": 7}})
    task = one.send("write the sum", "reviewer")
    beat(one)
    (run,) = one.runs()
    assert one.root_document(run.run).meta.extra["agent"] == "reviewer"
    assert one.nerves.messages.thread(task.id)[-1].type == "outcome"


def test_the_reply_that_holds_is_taken_whatever_was_told_first(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always")
    one.send("write the sum")
    beat(one)
    run = waiting(one).run
    one.tell(run, "approve", by=Decider("command"))
    one.tell(run, "reject", by=TERMINAL, why="not so")
    one.reply(waiting(one).id, "veto", by=TERMINAL)
    assert beat(one) == ["cancelled"]
    assert not list((one.workspace.runs / run / "inbox").glob("*.json"))


def test_a_run_that_somebody_holds_is_left_to_them(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always")
    one.send("write the sum")
    beat(one)
    asked = waiting(one)
    one.reply(asked.id, "approve", by=TERMINAL)

    async def held() -> list[str]:
        beating = Beat(one)
        with run_lock(one.workspace.runs / asked.run):
            beating.beat()
            beating.beat()
            assert not beating.results
        await async_until(lambda: beating.beat() or beating.results)
        return [each.status for each in beating.results]

    assert asyncio.run(held()) == ["complete"]


def test_interrupted_work_goes_on_at_the_next_beat(fractal: Make, tmp_path: Path) -> None:
    slow = {"tool": "bash", "args": {"command": "touch begun; sleep 30"}}

    def answers(ask: Ask) -> Any:
        return ACCEPT if ask.phase == "check" else plan(WRITES, slow)

    async def interrupted() -> None:
        beating = asyncio.create_task(Beat(fractal(answers)).run(0.01))
        await async_until(lambda: (tmp_path / "work" / "begun").exists())
        beating.cancel()
        await asyncio.wait([beating])

    one = fractal(answers)
    one.send("write the sum and wait")
    asyncio.run(interrupted())
    (run,) = one.runs()
    assert run.status == "interrupted"
    assert beat(one) == ["waiting"]  # whether the command happened, only a person knows
    one.reply(waiting(one, "question").id, "veto", by=TERMINAL)
    assert beat(one) == ["cancelled"]
    assert len(one.runs()) == 1


def test_oversight_of_one_run_does_not_stop_the_others(fractal: Make) -> None:
    asked: set[str] = set()

    async def judge(ask: Ask) -> Any:
        asked.add(ask.loop)
        await async_until(lambda: len(asked) == 3)  # the others are asked meanwhile
        return {"decision": "approve", "why": ""}

    one = fractal(oversight=judge, review="always")
    for number in range(3):
        one.send(f"write the sum {number}", f"agent{number}")
    assert beat(one) == ["complete"] * 3


def test_tasks_take_turns(fractal: Make) -> None:
    """Those of one agent in their order; more agents than places wait as well."""
    order: list[str] = []

    def answers(ask: Ask) -> Any:
        order.append(ask.document.task)
        name = f"{ask.document.meta.run}.txt"
        return plan(write(name, "5\n"), success=[{"file": name, "has": "5"}])

    one = fractal(answers, check="auto", recall=False)
    tasks = [f"write the sum {number}" for number in range(4)]
    for task in tasks:
        one.send(task)
    for number in range(AT_ONCE):
        one.send(f"write the product {number}", f"agent{number}")
    assert beat(one) == ["complete"] * (4 + AT_ONCE)
    assert [task for task in order if "sum" in task] == tasks
    assert one.nerves.messages.open() == []


def test_an_error_is_a_message_and_is_not_tried_again_and_again(fractal: Make) -> None:
    one = fractal()
    task = one.send("write the sum")
    root = one.workspace.new_run()
    one.nerves.messages.write(
        task.id, "taken", type="observation", run=root, in_reply_to=task.id, data={"taken": True}
    )
    (one.workspace.runs / root / f"system-{root}.md").write_text("no document")
    said: list[str] = []

    async def beats() -> None:
        beating = Beat(one, said.append)
        for _ in range(5):
            beating.beat()
            await asyncio.sleep(0)

    asyncio.run(beats())
    assert len(said) == 1 and f"system-{root}.md" in said[0]
    assert "cannot be taken up" in one.nerves.messages.thread(task.id)[-1].text


def test_a_run_that_fails_is_tried_once_and_again_at_the_next_start(fractal: Make) -> None:
    asked: list[str] = []

    def answers(ask: Ask) -> Any:
        if ask.phase != "check" and "too risky" in prompt_text(ask):
            asked.append(ask.loop)
            raise ConfigurationError("the model is on fire")
        return worker(ask)

    async def beats(beating: Beat, said: list[str]) -> None:
        await async_until(lambda: beating.beat() or any("on fire" in text for text in said))
        for _ in range(20):
            beating.beat()
            await async_pause(0.01)

    one = fractal(answers, approve=["write"])
    one.send("write the sum")
    beat(one)
    one.reply(waiting(one).id, "reject", "too risky", by=TERMINAL)
    for _ in range(2):
        said: list[str] = []
        asyncio.run(beats(Beat(one, said.append), said))
        assert sum("on fire" in text for text in said) == 1
    assert len(set(asked)) == 1
    reports = [each.in_reply_to for each in one.nerves.messages.all() if "on fire" in each.text]
    assert len(reports) == len(set(reports)) == 2  # at most one in each thread


@pytest.mark.parametrize(("policy", "status"), [("reject", "waiting"), ("cancel", "cancelled")])
def test_patience_ends(fractal: Make, policy: str, status: str) -> None:
    def again(ask: Ask) -> Any:
        return ACCEPT if ask.phase == "check" else plan(write(f"{ask.attempt}.txt", "5\n"))

    settings = {"review": "always", "unanswered": policy}
    one = fractal(again, oversight=passes, patience=1_000, **settings)
    one.send("write the sum")
    assert beat(one) == ["waiting"]
    assert beat(one) == []  # it is not late yet
    hasty = fractal(again, oversight=passes, patience=0.05, **settings)
    pause(0.06)
    assert beat(hasty)[0] == status
    by_policy = [each for each in one.nerves.messages.all() if each.sender == "policy"]
    assert by_policy[0].type == ("reject" if policy == "reject" else "veto")
    assert by_policy[0].text == "nobody replied within 0.05 seconds"


def test_by_default_a_run_waits(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always", patience=0.01)
    one.send("write the sum")
    beat(one)
    pause(0.02)
    assert beat(one) == []


def test_patience_ends_while_beats_go_on(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always", patience=0.3, unanswered="cancel")
    one.send("write the sum")
    beating = Beat(one)

    async def beats() -> None:
        await async_until(lambda: beating.beat() or len(beating.results) == 2)

    asyncio.run(beats())
    assert [each.status for each in beating.results] == ["waiting", "cancelled"]


def test_without_memory_there_are_no_messages(fractal: Make) -> None:
    one = fractal(remember=False)
    for act in (lambda: one.send("write"), lambda: one.reply("x", "approve"), lambda: beat(one)):
        with pytest.raises(UsageError, match="remember"):
            act()


def test_an_idle_beat_is_quick_and_writes_nothing(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always")
    messages = one.nerves.messages
    messages.shelf.put(*[Message(id=f"{at:024d}") for at in range(10_000 // every(10))])
    one.send("write the sum")
    assert beat(one) == ["waiting"]
    beating = Beat(one)
    beating.beat()
    state = one.workspace.state
    before = {path: path.stat().st_mtime_ns for path in state.rglob("*")}
    with within(200 * 0.001):  # 0.08 ms each
        for _ in range(200):
            beating.beat()
    assert {path: path.stat().st_mtime_ns for path in state.rglob("*")} == before


@pytest.mark.night
@pytest.mark.alone
def test_a_reply_is_looked_at_quickly_in_a_long_history(fractal: Make) -> None:
    one = fractal(oversight=passes, review="always")
    one.nerves.messages.shelf.put(*[Message(id=f"{at:024d}") for at in range(10_000)])
    one.send("write the sum")
    beat(one)
    asked = waiting(one)
    beating = Beat(one)

    async def looked() -> float:
        beating.beat()
        one.reply(asked.id, "approve", by=TERMINAL)
        began = time.process_time()
        beating.beat()
        seconds = time.process_time() - began
        await async_until(lambda: beating.results)
        return seconds

    assert asyncio.run(looked()) < 0.05  # 4 ms


def state_of(fractal: Fractal) -> None:
    """Nothing is lost and nothing was done twice: one run, one outcome of each thread, one decision."""
    messages = fractal.nerves.messages.all()
    assert len(fractal.runs()) == 1
    tasks = [each for each in messages if each.type == "task"]
    outcomes = [each.in_reply_to for each in messages if each.type == "outcome"]
    assert len(outcomes) == len(set(outcomes)) == 2 and tasks[0].id in outcomes
    assert len([each for each in messages if each.type == "approve"]) == 1
    assert fractal.nerves.messages.open() == []


def test_a_beat_that_is_killed_between_reply_and_run_goes_on(fractal: Make, tmp_path: Path) -> None:
    """The same for a reply of a human, with the default store, killed by a signal."""
    one = fractal(oversight=passes, review="always")
    one.send("write the sum")
    beat(one)
    one.reply(waiting(one).id, "approve", by=TERMINAL)
    for seconds in (0.02, 0.05, 0.1, 0.2):
        if not (child := os.fork()):
            beat(fractal(oversight=passes, review="always"))
            os._exit(0)
        pause(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    beat(fractal(oversight=passes, review="always"))
    state_of(fractal())


WRITER = """
import sys
from runtime.workspace.deciders import Decider, TERMINAL
from runtime.api.fractal import Fractal
folder, message, kind, who = sys.argv[1:]
by = TERMINAL if who == "human" else Decider("oversight", "large")
print("ready", flush=True)
sys.stdin.readline()
Fractal(folder, settings={"fsync": False}).reply(message, kind, "why", by=by)
"""


@pytest.mark.parametrize(
    ("kinds", "status"),
    [(("approve", "veto", "approve"), "cancelled"), (("approve", "approve", "reject"), "complete")],
)
@pytest.mark.night
def test_two_humans_and_oversight_write_at_once(
    fractal: Make, tmp_path: Path, kinds: tuple[str, ...], status: str
) -> None:
    one = fractal(oversight=passes, review="always")
    one.send("write the sum")
    beat(one)
    asked = waiting(one)
    writers = [
        Process(
            [sys.executable, "-c", WRITER, str(tmp_path / "work"), asked.id, kind, who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path.cwd(),
        )
        for kind, who in zip(kinds, ("human", "human", "oversight"), strict=True)
    ]
    for each in writers:
        assert each.stdout and each.stdout.readline()
    for each in writers:
        each.communicate(b"\n")
    assert [each.returncode for each in writers] == [0, 0, 0]
    replies = [each for each in one.nerves.messages.thread(asked.id) if each.type in kinds]
    assert len(replies) == 3
    assert beat(one) == [status]


LEADER = """
import asyncio, sys
from runtime.api.beating import Beat
from runtime.api.fractal import Fractal
asyncio.run(Beat(Fractal(sys.argv[1], settings={"fsync": False})).run(0.02))
"""


def test_one_of_two_beats_leads_and_the_other_takes_over(fractal: Make, tmp_path: Path) -> None:
    one = fractal()
    one.nerves.messages.threads()
    command = [sys.executable, "-c", LEADER, str(tmp_path / "work")]
    leader = Process(command, cwd=Path.cwd(), stdout=subprocess.PIPE)
    lease = one.workspace.state / "beat.lock"
    until(lambda: lease.exists() and lease.read_text())
    said: list[str] = []

    async def follow() -> Beat:
        beating = Beat(one, said.append)
        running = asyncio.create_task(beating.run(0.02))
        await async_until(lambda: said)
        assert f"process {leader.pid}" in said[0]
        leader.kill()
        leader.communicate()
        one.send("write the sum")
        await async_until(lambda: beating.results)
        running.cancel()
        await asyncio.wait([running])
        return beating

    assert [each.status for each in asyncio.run(follow()).results] == ["complete"]
    assert f"process {os.getpid()}" in lease.read_text()
