"""Draws a board as a live tree: one row a loop or step, folded until it fits the terminal.

Everything that came from a model, a tool or a person is plain text here: neither markup nor escape
sequences in it have any effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kernel.document import ACCEPTED
from runtime.cli.board import PHASES, Board, LoopRow, StepRow
from runtime.cli.words import MARKS, call, elide, line, money, tokens, width

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SHOWN = 6
"""Of the steps of one loop that ended well, how many stay in sight while there is room."""
_COLOURS = {"bright_black": "dim"}


@dataclass(frozen=True)
class Row:
    """One line of the tree: its branches, a sign, what it is, and a loop's figures."""

    guide: str
    sign: str
    colour: str
    label: str
    detail: str = ""
    loop: LoopRow | None = None


class Tree:
    """A renderable of the board's present state."""

    def __init__(self, board: Board, *, live: bool = True) -> None:
        self.board = board
        self.live = live

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The rows that fit, each exactly one line."""
        height = (options.height or console.size.height) - 1 if self.live else 10_000
        for row in self.rows(height):
            yield self.draw(row, options.max_width)

    # ---- which rows ----

    def rows(self, height: int) -> list[Row]:
        """The rows of the tree, folded further and further until they fit into so many lines."""
        root = self.board.loops.get(self.board.root)
        if root is None:
            return []
        for shown in (SHOWN, 3, 1):
            rows = self._loop_rows(root, "", "", shown, height)
            if len(rows) <= height:
                return rows
        low, high = 1, height
        while low < high:  # as many of the open ones in each loop as there is room for
            busy = (low + high + 1) // 2
            fits = len(self._loop_rows(root, "", "", 0, busy)) <= height
            low, high = (busy, high) if fits else (low, busy - 1)
        rows = self._loop_rows(root, "", "", 0, low)
        if len(rows) <= height:
            return rows
        more = Row("", " ", "dim", f"… {len(rows) - height + 1} more lines")
        return [*rows[: max(height - 1, 1)], more]

    def _loop_rows(self, loop: LoopRow, guide: str, under: str, shown: int, busy: int) -> list[Row]:
        sign, colour = self._sign(loop.status)
        label = line(loop.task) if loop.task else loop.id
        if loop.kind not in ("task", ""):
            label = f"{line(loop.kind)}: {label}"
        rows = [Row(guide, sign, colour, label, self._detail(loop), loop)]
        if loop.ended and loop.id != self.board.root:
            return rows  # what an ended child did in detail stands in its document
        parts = _folded(self._visible_steps(loop), shown, busy)
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
            if isinstance(part, str):
                rows.append(Row(under + branch, "", "dim", part))
            elif child := self.board.loops.get(part.loop):
                rows += self._loop_rows(child, under + branch, under + below, shown, busy)
            else:
                sign, colour = self._sign(part.state)
                rows.append(Row(under + branch, sign, colour, call(part.tool, part.args, 200)))
        return rows

    def _visible_steps(self, loop: LoopRow) -> list[StepRow]:
        return [loop.steps[n] for n in sorted(loop.steps)]

    def _sign(self, status: str) -> tuple[str, str]:
        if status == "running" and self.live:
            return SPINNER[int(self.board.clock() * 10) % len(SPINNER)], "cyan"
        sign, colour = MARKS.get(status, ("·", "dim"))
        return sign, _COLOURS.get(colour, colour)

    def _detail(self, loop: LoopRow) -> str:
        """What the loop is at, in a few words."""
        if loop.status == "waiting":
            return f"waits for {loop.waits_for}"
        if loop.ended or loop.status == "interrupted":
            return "" if loop.status == "complete" else loop.status
        retry = f", attempt {loop.attempt}" if loop.attempt > 1 else ""
        return f"{loop.phase.upper()}{retry}" + (f" · {line(loop.asking)}" if loop.asking else "")

    # ---- how a row looks ----

    def draw(self, row: Row, columns: int) -> Text:
        """The row as a line of at most so many cells: label to the left, figures to the right."""
        figures = self._figures(row.loop, columns) if row.loop else Text()
        text = Text(no_wrap=True, overflow="crop")
        text.append(row.guide, "dim")
        text.append(f"{row.sign} " if row.sign else "", row.colour)
        room = columns - text.cell_len - figures.cell_len - (2 if row.loop else 0)
        detail = ""
        if row.detail and room > 30:
            least = min(width(row.label), max(room - 24, room // 2))  # of the label, if there is a detail
            detail = elide(row.detail, min(room - least - 2, max(room - width(row.label) - 2, room // 3)))
        label = elide(row.label, room - (width(detail) + 2 if detail else 0))
        text.append(label, "bold" if row.loop and not row.loop.parent else row.colour if not row.sign else "")
        if detail:
            text.append(f"  {detail}", "yellow" if row.loop and row.loop.ended else "dim")
        if row.loop:
            text.append(" " * max(columns - text.cell_len - figures.cell_len, 1))
            text.append_text(figures)
        text.truncate(columns)
        return text

    def _figures(self, loop: LoopRow, columns: int) -> Text:
        """Phases, tokens, cost and time, as many of them as a narrow terminal has room for."""
        spent = self.board.spent(loop)
        text = Text()
        if columns >= 40:
            text.append_text(self._dots(loop))
        if columns >= 50:
            text.append(f" {tokens(spent['tokens']):>5}", "dim" if not spent["tokens"] else "")
        if columns >= 64:
            text.append(f" {money(spent.get('usd', 0)):>8}", "dim")
        text.append(f" {_clock(self.board.elapsed(loop)):>5}", "dim")
        return text

    def _dots(self, loop: LoopRow) -> Text:
        now = len(PHASES) if loop.phase == "output" or loop.status in ACCEPTED else -1
        if loop.phase in PHASES:
            now = PHASES.index(loop.phase) if loop.status not in ACCEPTED else len(PHASES)
        text = Text()
        for at, phase in enumerate(PHASES):
            letter = phase[0].upper()
            if at < now:
                text.append(letter, "green")
            elif at == now:
                text.append(letter, "reverse cyan" if loop.status in ("running", "waiting") else "red")
            else:
                text.append("·", "dim")
        return text


def _folded(steps: Sequence[StepRow], shown: int, busy: int) -> list[StepRow | str]:
    """Steps in their order: what is open or went wrong stays, of the rest only the last ones."""
    fine = [step for step in steps if step.state in ("done", "skipped", "struck")]
    others = [step for step in steps if step not in fine]
    ranked = sorted(fine, key=lambda step: (bool(step.loop), step.n))  # a part of the task tells more
    kept = {step.n for step in ranked[len(fine) - shown :]} if shown else set[int]()
    bad = [step for step in others if step.ended]
    working = [step for step in others if not step.ended]
    kept |= {step.n for step in bad[-busy:]} | {step.n for step in working[:busy]}
    parts: list[StepRow | str] = [step for step in steps if step.n in kept]
    hidden = [
        f"{count} more {word}"
        for count, word in (
            (len([step for step in fine if step.n not in kept]), "done"),
            (max(len(bad) - busy, 0), "failed"),
            (max(len(working) - busy, 0), "at work"),
        )
        if count
    ]
    if hidden:
        first = next(step.n for step in steps if step.n not in kept)
        at = len([n for n in kept if n < first])
        parts.insert(at, f"… {', '.join(hidden)}")
    return parts


def _clock(value: float) -> str:
    """A duration in at most five characters: 4.2s, 59s, 3:04, 1h02."""
    if value < 9.95:
        return f"{value:.1f}s"
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}"
