"""The live tree of a run on a terminal: `Board` collects events, `Tree` draws them, `LiveTree` redraws.

Text from a model, tool or person is printed as plain text, without markup or escape sequences.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from kernel.asking.turn import TURN
from kernel.document.model import ACCEPTED, ENDED, STEP_ENDED
from kernel.events import Event
from runtime.cli.output import MARKS, call, cost_of, elide, line, seconds, tokens, width
from runtime.cli.progress import PHASES, View, notice, summary

LETTERS = ("understand", "plan", "do", "check")
"""The phases that a loop's row shows by their first letters."""
_ASKED = {"fused": "plan", "atomic": "do", "work": "do", "turn": "do"}
FINE = ("done", "skipped", "struck")
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MOST_ROWS = 200
"""Rows of the last picture."""
SHOWN = 6
"""Finished steps of one loop that stay visible while there is room."""
SLOW = 3.0
"""Seconds without a reply after which the wait is shown."""
WRITTEN = 2_000
"""Characters of a reply in progress that are kept: the widest terminal shows fewer."""
_COLOURS = {"bright_black": "dim"}


@dataclass
class StepRow:
    """A step of a loop, as known from events."""

    n: int
    tool: str
    args: dict[str, Any]
    state: str = "running"
    loop: str = ""  # the child that carries it out

    @property
    def ended(self) -> bool:
        """Whether the step is over."""
        return self.state in STEP_ENDED


@dataclass
class LoopRow:
    """A loop, as known from events."""

    id: str
    parent: str = ""
    kind: str = "task"
    task: str = ""
    phase: str = ""
    attempt: int = 1
    status: str = "running"
    turn: int = 0  # the newest one
    held: str = ""  # why its newest answer was held back
    asking: str = ""  # the rung that is being asked now
    asked: float = 0.0  # when
    writing: str = ""  # the end of the reply that is being written
    thinking: str = ""  # the end of what the model thinks before it
    own: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] | None = None  # what it spent with its children, once it has ended
    began: float = 0.0
    finished: float | None = None
    waits_for: str = ""
    steps: dict[int, StepRow] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the loop is over."""
        return self.status in ENDED


class Board:
    """The state of one run, built from its events."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lock = threading.Lock()  # locked while loops change or are drawn
        self.run = ""
        self.root = ""
        self.loops: dict[str, LoopRow] = {}

    def apply(self, event: Event) -> None:
        """Take one event in; an unknown kind changes nothing."""
        with self.lock:
            self._apply(event)

    def _apply(self, event: Event) -> None:
        data: Any = event.data
        if event.kind == "run_started":
            self.run, self.root = event.run, event.loop_id
        if event.kind == "run_finished":
            self._run_finished(str(data.get("status", "")))
        if event.kind in ("run_finished", "warning", "stale") or not event.loop_id:
            return
        loop = self._loop(event)
        match event.kind:
            case "loop_started" | "run_started":
                loop.task = str(data.get("task") or loop.task)
            case "phase_started":
                loop.phase, loop.attempt, loop.status = data["phase"], data.get("attempt", 1), "running"
            case "phase_finished" if data.get("why"):
                loop.held = str(data["why"])
            case "phase_finished" if "approach" not in data:  # else a turn goes on with its calls
                loop.phase, loop.held = data["phase"], ""
            case "ask_started":
                loop.phase = _ASKED.get(data["phase"], str(data["phase"]))
                loop.turn = int(data.get("step", 0)) if data["phase"] == TURN else 0
            case "ask_finished" if not data.get("reused"):
                for name in ("prompt_tokens", "completion_tokens", "instruction_tokens", "usd"):
                    loop.own[name] = loop.own.get(name, 0) + (data.get(name) or 0)
                loop.own["unpriced"] = loop.own.get("unpriced", 0) + (data.get("usd", 0) is None)
            case "step_started" | "step_finished":
                self._step(loop, event.kind, data)
            case "loop_waiting":
                loop.status = "waiting"
                kinds = {"person": "an answer", "lifeforce": "lifeforce"}
                loop.waits_for = kinds.get(str(data.get("for")), "an approval")
            case "loop_finished":
                loop.status, loop.finished = str(data["status"]), self.clock()
                spent = (data.get("spent") or {}).items()
                loop.whole = {name: float(value) for name, value in spent if isinstance(value, int | float)}
            case _:
                pass
        if event.kind == "ask_started":
            loop.asking, loop.asked = str(data.get("rung", "")), self.clock()
            loop.writing = loop.thinking = ""
        elif event.kind == "reply_delta":
            loop.writing = (loop.writing + str(data.get("text", "")))[-WRITTEN:]
        elif event.kind == "thinking_delta":
            loop.thinking = (loop.thinking + str(data.get("text", "")))[-WRITTEN:]
        elif event.kind.startswith(("ask_", "phase_", "loop_finished")):
            loop.asking = loop.writing = loop.thinking = ""

    def _step(self, loop: LoopRow, kind: str, data: Any) -> None:
        n, tool = int(data["step"]), str(data.get("tool", ""))
        if kind == "step_started":
            row = loop.steps.get(n)
            loop.steps[n] = StepRow(n, tool, dict(data.get("args") or {}), loop=row.loop if row else "")
        else:
            loop.steps.setdefault(n, StepRow(n, tool, {})).state = str(data.get("state", "done"))

    def _loop(self, event: Event) -> LoopRow:
        """The row of a loop; a new one is attached to the step of its parent, whose number ends its id."""
        if event.loop_id in self.loops:
            return self.loops[event.loop_id]
        row = LoopRow(event.loop_id, event.parent_id, event.type or "task", began=self.clock())
        self.loops[row.id] = row
        parent = self.loops.get(row.parent)
        number = row.id.rpartition(f"-{event.run}-")[2].rpartition(".")[2]
        if parent is not None and number.isdigit():
            step = parent.steps.setdefault(int(number), StepRow(int(number), row.kind, {}))
            step.loop = row.id
            row.task = str(step.args.get("task", ""))
        return row

    def _run_finished(self, status: str) -> None:
        """Mark open loops and steps of an interrupted run."""
        for loop in self.loops.values() if status == "interrupted" else ():
            if not loop.ended:
                loop.status, loop.finished, loop.asking = status, self.clock(), ""
            for step in loop.steps.values():
                step.state = step.state if step.ended else status

    def skip(self, waited: float) -> None:
        """Leave out the time of waiting for a person."""
        for loop in self.loops.values():
            if not loop.ended:
                loop.began += waited

    def children(self, loop: LoopRow) -> Iterator[LoopRow]:
        """The loops that carry out the steps of this one."""
        return (self.loops[step.loop] for step in loop.steps.values() if step.loop in self.loops)

    def spent(self, loop: LoopRow) -> dict[str, float]:
        """The cost so far of the loop and its children; `tokens` counts prompts and replies."""
        total = dict(loop.whole or loop.own)
        for child in () if loop.whole else self.children(loop):
            for name, value in self.spent(child).items():
                total[name] = total.get(name, 0) + value
        total["tokens"] = total.get("prompt_tokens", 0) + total.get("completion_tokens", 0)
        return total

    def elapsed(self, loop: LoopRow) -> float:
        """Seconds since the loop began, or that it took."""
        return (loop.finished if loop.finished is not None else self.clock()) - loop.began


@dataclass(frozen=True)
class Row:
    """One line of the tree: its branches, a sign, what it is, and a loop's figures."""

    guide: str
    sign: str
    colour: str
    label: str
    detail: str = ""
    loop: LoopRow | None = None
    end: bool = False  # whether the end of the label is shown where it is too long


class Tree:
    """Draws the present state of a board."""

    def __init__(self, board: Board, *, live: bool = True) -> None:
        self.board = board
        self.live = live

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The rows that fit, each exactly one line."""
        height = (options.height or console.size.height) - 1 if self.live else MOST_ROWS
        with self.board.lock:
            lines = [self.draw(row, options.max_width) for row in self.rows(height)]
        yield from lines or [Text("…", "dim")]

    def rows(self, height: int) -> list[Row]:
        """The rows of the tree, folded until they fit into `height` lines."""
        root = self.board.loops.get(self.board.root)
        if root is None:
            return []
        for limit in (SHOWN, 3, 1):
            rows = self._loop_rows(root, "", "", limit, height)
            if len(rows) <= height:
                return rows
        # as many of the open ones in each loop as there is room for
        sizes = range(1, height + 1)
        busy = bisect_right(sizes, height, key=lambda busy: len(self._loop_rows(root, "", "", 0, busy)))
        rows = self._loop_rows(root, "", "", 0, max(busy, 1))
        if len(rows) <= height:
            return rows
        more = Row("", " ", "dim", f"… {len(rows) - height + 1} more lines")
        return [*rows[: max(height - 1, 1)], more]

    def _loop_rows(self, loop: LoopRow, guide: str, under: str, limit: int, busy: int) -> list[Row]:
        sign, colour = self._sign(loop.status)
        label = line(loop.task) if loop.task else loop.id
        if loop.kind not in ("task", ""):
            label = f"{line(loop.kind)}: {label}"
        rows = [Row(guide, sign, colour, label, self.detail(loop), loop)]
        if loop.writing and self.live:
            rows.append(Row(f"{under}  ", "", "dim", line(loop.writing), end=True))
        elif loop.thinking and self.live:
            rows.append(Row(f"{under}  ", "", "dim italic", line(loop.thinking), end=True))
        if loop.held and not loop.ended:
            rows.append(Row(f"{under}  ", "", "yellow", line(loop.held)))
        if loop.ended and loop.id != self.board.root:
            return rows  # its document shows what an ended child did
        parts = _folded([loop.steps[n] for n in sorted(loop.steps)], limit, busy)
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
            if isinstance(part, str):
                rows.append(Row(under + branch, "", "dim", part))
            elif child := self.board.loops.get(part.loop):
                rows += self._loop_rows(child, under + branch, under + below, limit, busy)
            else:
                sign, colour = self._sign(part.state)
                rows.append(Row(under + branch, sign, colour, call(part.tool, part.args, 200)))
        return rows

    def _sign(self, status: str) -> tuple[str, str]:
        if status == "running" and self.live:
            return SPINNER[int(self.board.clock() * 10) % len(SPINNER)], "cyan"
        sign, colour = MARKS.get(status, ("·", "dim"))
        return sign, _COLOURS.get(colour, colour)

    def detail(self, loop: LoopRow) -> str:
        """What the loop is at, in a few words."""
        if loop.status == "waiting":
            return f"waiting for {loop.waits_for}"
        if loop.ended or loop.status == "interrupted":
            return "" if loop.status == "complete" else loop.status
        retry = f", attempt {loop.attempt}" if loop.attempt > 1 else ""
        asking = f" · {line(loop.asking)}" if loop.asking else ""
        waited = self.board.clock() - loop.asked
        slow = loop.asking and not loop.writing and waited >= SLOW
        turn = f", turn {loop.turn}" if loop.turn > 1 and loop.phase == "do" else ""
        doing = PHASES.get(loop.phase, loop.phase) + retry + turn
        return doing + asking + (f" · {waited:.0f} s" if slow else "")

    def draw(self, row: Row, columns: int) -> Text:
        """The row as a line of at most `columns` cells: label left, figures right."""
        lead = Text.assemble((row.guide, "dim"), (f"{row.sign} " if row.sign else "", row.colour))
        figures = self._figures(row.loop, columns) if row.loop else Text()
        room = columns - lead.cell_len - (figures.cell_len + 2 if row.loop else 0)
        detail = ""
        if row.detail and room > 30:
            detail = "  " + elide(row.detail, max(room - width(row.label), room // 2) - 2)
        label = elide(row.label, room - width(detail), end=row.end)
        style = "bold" if row.loop and not row.loop.parent else row.colour if not row.sign else ""
        colour = "yellow" if row.loop and row.loop.ended else "dim"
        text = Text.assemble(lead, (label, style), (detail, colour), no_wrap=True, overflow="crop")
        if row.loop:
            text.pad_right(max(columns - text.cell_len - figures.cell_len, 1))
            text.append_text(figures)
        text.truncate(columns)
        return text

    def _figures(self, loop: LoopRow, columns: int) -> Text:
        """Phases, tokens, cost and time, as far as the terminal is wide enough."""
        spent = self.board.spent(loop)
        text = Text()
        if columns >= 40:
            text.append_text(self._dots(loop))
        if columns >= 50:
            text.append(f" {tokens(spent['tokens']):>5}", "dim" if not spent["tokens"] else "")
        if columns >= 64:
            text.append(f" {cost_of(spent):>8}", "dim")
        text.append(f" {seconds(self.board.elapsed(loop), short=True):>5}", "dim")
        return text

    def _dots(self, loop: LoopRow) -> Text:
        finished = loop.phase == "output" or loop.status in ACCEPTED
        current = len(LETTERS) if finished else LETTERS.index(loop.phase) if loop.phase in LETTERS else -1
        present = "reverse cyan" if loop.status in ("running", "waiting") else "red"
        text = Text()
        for at, phase in enumerate(LETTERS):
            style = "green" if at < current else present if at == current else "dim"
            text.append(phase[0].upper() if at <= current else "·", style)
        return text


def _folded(steps: Sequence[StepRow], limit: int, busy: int) -> list[StepRow | str]:
    """Steps in order: open and failed ones stay, of the others only the last `shown`."""
    fine = [step for step in steps if step.state in FINE]
    bad = [step for step in steps if step.ended and step.state not in FINE]
    working = [step for step in steps if not step.ended]
    ranked = sorted(fine, key=lambda step: (bool(step.loop), step.n))  # loops last: they say more
    last = ranked[len(fine) - limit :] if limit else []
    visible = {step.n for step in (*last, *bad[-busy:], *working[:busy])}
    parts: list[StepRow | str] = [step for step in steps if step.n in visible]
    if first := next((step.n for step in steps if step.n not in visible), 0):
        groups = {"done": fine, "failed": bad, "at work": working}
        counts = {word: sum(step.n not in visible for step in group) for word, group in groups.items()}
        hidden = ", ".join(f"{n} more {word}" for word, n in counts.items() if n)
        parts.insert(sum(n < first for n in visible), f"… {hidden}")
    return parts


class LiveTree(View):
    """The tree of loops, redrawn eight times a second; the last picture stays."""

    def __init__(self) -> None:
        self.board = Board()
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._last = ""

    def __call__(self, event: Event) -> None:
        """Take an event in; notices are printed above the tree."""
        self.board.apply(event)
        if event.kind == "run_finished":
            spent = summary(event.data.get("spent") or {})
            self._last = f"{event.data.get('status')}: run {event.run}, {spent}"
        if text := notice(event):
            self._console.print(Text(text, "yellow", overflow="fold"))

    def _start(self) -> None:
        self._live = Live(
            get_renderable=lambda: Tree(self.board, live=self._live is not None),
            console=self._console,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._live.start()

    def _stop(self, *, keep: bool) -> None:
        live, self._live = self._live, None  # the last picture has no moving signs
        if live is not None:
            live.transient = not keep
            live.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the tree is hidden; it returns below the answer."""
        self._stop(keep=False)
        since = self.board.clock()
        try:
            yield
        finally:
            self.board.skip(self.board.clock() - since)
            self._start()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop(keep=True)
        if self._last:
            self._console.print(Text(self._last, "dim"))
