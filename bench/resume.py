"""`python -m bench resume`: what is lost or done twice when a run dies anywhere and goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.crash.campaign import KILLS, QUICK_KILLS, QUICK_POINTS, Tally, campaign, summary
from bench.crash.ground import Ground
from bench.crash.trial import FAULTS, Outcome
from bench.harness import markdown, show
from kernel.errors import ConfigurationError
from runtime.models.prices import litellm_folder
from runtime.sandbox.sandbox import Sandbox

_HEADS = ("died in", "points", "finished", *(name.replace("_", " ") for name in FAULTS))


def measure(
    *,
    quick: bool = False,
    kills: int | None = None,
    points: int | None = None,
    seed: int = 1,
    ground: Ground | None = None,
) -> Tally:
    """Try the points and moments; `points`: so many of them, None: all, or a few when `quick`."""
    if litellm_folder() is None:
        raise ConfigurationError(
            "the model behind HTTP is asked through litellm: pip install 'fractal-runtime[llm]'"
        )
    return campaign(
        kills=kills if kills is not None else QUICK_KILLS if quick else KILLS,
        points=points if points is not None else QUICK_POINTS if quick else None,
        seed=seed,
        sandbox=sandbox(),
        told=_progress(),
        ground=ground,
    )


def sandbox() -> str:
    """Where commands of the run are to run: in bubblewrap where that works."""
    return "auto" if Sandbox().available() is None else "off"


def main(
    as_json: bool = False,
    *,
    quick: bool = False,
    kills: int | None = None,
    points: int | None = None,
    seed: int = 1,
    report: Path | None = None,
    ground: Ground | None = None,
) -> None:
    """Measure and print, with the causes of what was lost or done twice."""
    tally = measure(quick=quick, kills=kills, points=points, seed=seed, ground=ground)
    figures = tally.figures()
    causes = [f"{times} × {cause[:300]}" for cause, times in summary(tally).most_common(20)]
    show(figures, table(figures), as_json, causes)
    if report is not None:
        report.write_text(page(figures, _command(quick, kills, points, seed, report)), "utf-8")


def table(figures: Mapping[str, Any]) -> str:
    """By kind of death what was tried and what came of it, as markdown."""
    names = ("points", "finished", *FAULTS)
    rows = [[kind, *(row[name] for name in names)] for kind, row in figures["by_kind"].items()]
    rows.append(["**all**", *(figures[name] for name in names)])
    return markdown(_HEADS, rows)


def page(figures: Mapping[str, Any], command: str) -> str:
    """The report."""
    return _PAGE.format(table=table(figures), command=command, **figures)


def _command(quick: bool, kills: int | None, points: int | None, seed: int, report: Path) -> str:
    words = ["python", "-m", "bench", "resume", *(["--quick"] if quick else [])]
    words += [] if kills is None else ["--kills", str(kills)]
    words += [] if points is None else ["--points", str(points)]
    words += [] if seed == 1 else ["--seed", str(seed)]
    return " ".join([*words, "--report", report.as_posix()])


def _progress() -> Any:
    """A line that is written over on a terminal, and nothing elsewhere."""

    def told(done: int, of: int, outcome: Outcome) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {of} {'' if outcome.good else outcome.point}\x1b[K")
            sys.stderr.write("\r\x1b[K" if done == of else "")
            sys.stderr.flush()
        elif not outcome.good and os.environ.get("FRACTAL_DEBUG"):
            print(outcome, file=sys.stderr)

    return told


_PAGE = """# A run that dies anywhere goes on

This page was written by `{command}`.

`fractal run`, `answer` and `resume` were started as processes of their own, with a model behind HTTP, and
died: by `os._exit` before, half-way through and after each call that changes a file, and by SIGKILL at random
moments. Then `fractal resume` went on until the run had ended, and what it came to was compared with an
undisturbed run.

- The run: a question to a person; a parent with children side by side and a grandchild; operations with
  effects that can be looked at (write, append, edit, copy, move, replace) and without (bash, sandbox
  `{sandbox}`); a step asked for when it is reached; a reply of the wrong form; a look in CHECK; a plan that
  CHECK rejects once; a result too long for its document; references between steps and attempts.
- Undisturbed it makes {calls_that_change_files} calls that change files.
- Tried: {points} points, {deaths} deaths at {distinct_places} distinct places, in {seconds} s; seed {seed}.
- Finished: {finished}. A call that was in flight when the process died was made again
  {calls_in_flight_repeated} times, which is allowed: at most one for each active loop. In
  {runs_that_asked_a_person} runs a person had to say whether a command had happened.

| column | counts |
| --- | --- |
| repeated calls | a reply of the model was on disk and it was asked again, by its server's count |
| repeated steps | a command ran twice, by the lines that it left in a file |
| unreadable | a document did not parse, right after a death or at the end |
| temporary files | still there at the end |
| ledger broken | spent and reserved exceeded limit and recorded overrun, or more was asked than charged |
| different result | status, result or a file differs from the undisturbed run's |

{table}
"""
