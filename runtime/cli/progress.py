"""Shows a run while it works: a live tree on a terminal, plain lines in a pipe, JSON lines, or warnings only.

Progress goes to standard error; only `--json` writes to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

from kernel.asking.turn import TURN
from kernel.events import Event
from runtime.cli.output import call, cost_of, count, elide, line, money, notify, put_event, seconds, tokens

PHASES: Mapping[str, str] = {"understand": "understanding", "plan": "planning", "do": "working"} | {
    "check": "checking",
    "turn": "working",
    "fused": "understanding and planning",
    "atomic": "working",
    "work": "working",
    "review": "reviewing",
    "answer": "answering",
}
"""What a loop is doing in each phase; earlier versions also asked for `fused`, `atomic` and `work`."""
GATES: Mapping[str, str] = {
    "ACCEPT": "accepted",
    "UNANSWERED": "no answer is known",
    "CONTINUE": "not reached yet, going on turn by turn",
    "RETRY": "not accepted, trying again",
    "ESCALATE": "not accepted, escalated",
    "CLARIFY": "a question is open",
    "CANNOT": "not possible",
}
"""Words for the end of a phase."""
_NOTICES = {"warning": "warning", "stale": "stale", "system_changed": "system"}


def on_terminal() -> bool:
    """Whether standard error is a terminal that can show a live tree."""
    dumb = os.environ.get("CI") or os.environ.get("TERM", "dumb") == "dumb"
    return sys.stderr.isatty() and not dumb


def notice(event: Event) -> str:
    """What every view but JSON shows: a warning, or what a step deleted; else ""."""
    if word := _NOTICES.get(event.kind):
        return f"{word}: {line(str(event.data.get('message', '')))}"
    return line(str(event.data.get("deleted", ""))) if event.kind == "step_finished" else ""


def summary(spent: Mapping[str, Any]) -> str:
    """The cost of a run in a few words."""
    calls = int(spent.get("calls", 0))
    used = spent.get("prompt_tokens", 0) + spent.get("completion_tokens", 0)
    costs = [f"{tokens(used)} tokens", cost_of(spent)] if calls else []
    return ", ".join([count(calls, "call"), *costs, seconds(float(spent.get("seconds", 0)))])


class View:
    """Shows warnings and deletions only; the base of the other views. Used as a context around a run."""

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        if text := notice(event):
            _write(text)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the terminal is free for a question."""
        yield

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class JsonLines(View):
    """Each event as a line of JSON on standard output. The run goes on when the reader closes the pipe."""

    def __init__(self) -> None:
        self._open = True

    def __call__(self, event: Event) -> None:
        """Write the event."""
        try:
            if self._open:
                put_event(event)
        except BrokenPipeError:
            self._open = False


class PlainLines(View):
    """One line on standard error for each thing worth knowing afterwards."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _write
        self._last: dict[str, int] = {}  # the number of the last planned step, by loop

    def __call__(self, event: Event) -> None:
        """Print the event, if it is worth a line."""
        for text in filter(None, (self._text(event, event.data), notice(event))):
            where = event.loop_id.rpartition(f"-{event.run}-")[2] if event.parent_id else ""
            self._write(f"[{where}] {text}" if where else text)

    def _text(self, event: Event, data: Mapping[str, Any]) -> str:
        phase, gate, attempt = str(data.get("phase")), str(data.get("gate", "")), int(data.get("attempt", 1))
        match event.kind:
            case "run_started":
                return f"run {event.run}: {elide(str(data.get('task', '')), 100)}"
            case "phase_started" if phase == "plan" and attempt > 1:
                return f"planning, attempt {attempt}…"
            case "phase_started":
                return "understanding…" if phase == "understand" else ""
            case "phase_finished" if phase == "plan" and gate == "PROCEED":
                steps = data.get("steps") or [0]
                self._last[event.loop_id] = max(steps)
                if steps != [0]:
                    return f"planned {count(len(steps), 'step')}"
                return f"planned: {elide(str(data['approach']), 100)}" if data.get("approach") else ""
            case "phase_finished" if data.get("why"):
                return elide(str(data["why"]), 200)
            case "phase_finished":
                return (
                    f"checked: {GATES.get(gate, gate.lower())}" if phase == "check" else GATES.get(gate, "")
                )
            case "ask_finished":
                used = (data.get("prompt_tokens") or 0) + (data.get("completion_tokens") or 0)
                doing = f"turn {data.get('step')}" if phase == TURN else PHASES.get(phase, phase)
                by = f"{doing} by {line(str(data.get('model') or data.get('rung')))}"
                logged = ", from the log" if data.get("reused") else ""
                return f"{by}: {tokens(used)} tokens, {money(data.get('usd'))}{logged}" if used else ""
            case "ask_refused":
                why = elide(str(data.get("why", "")), 160)
                return f"refused a reply of {line(str(data.get('rung')))}: {why}"
            case "step_started":
                return f"{self._step(event)} {call(str(data.get('tool', '')), data.get('args'), 100)}"
            case "step_finished":
                result = elide(str(data.get("result", "")), 80)
                return f"{self._step(event)}: {data.get('state')}" + (f" → {result}" if result else "")
            case "said":
                return f"heard: {elide(str(data.get('text', '')), 100)}"
            case "loop_waiting":
                return f"waiting for {'an answer' if data.get('for') == 'person' else 'an approval'}"
            case "run_finished":
                return f"run {event.run}: {data.get('status')}, {summary(data.get('spent') or {})}"
            case _:
                return ""

    def _step(self, event: Event) -> str:
        """`step 1/3`; without the total where a plan goes on, or an earlier process has made it."""
        last = self._last.get(event.loop_id, 0)
        return f"step {event.data['step']}" + (f"/{last}" if event.data["step"] <= last else "")


def _write(text: str) -> None:
    with suppress(BrokenPipeError):
        notify(text)
