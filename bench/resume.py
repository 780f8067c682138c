"""`python -m bench resume`: what is lost or repeated when a run dies anywhere and is resumed."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.crash.campaign import Ground, points_of, prepared, try_all
from bench.crash.trial import FAULTS, Outcome
from bench.harness import Figures, markdown, show
from kernel.errors import ConfigurationError
from runtime.models.prices import litellm_folder
from runtime.sandbox.sandbox import Sandbox

KILLS, QUICK_KILLS, QUICK_POINTS = 300, 30, 72


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
    """Try `kills` moments and `points` calls (None: all, or a few if `quick`), and print the figures."""
    if litellm_folder() is None:
        raise ConfigurationError("the model behind HTTP needs litellm: pip install 'fractal-runtime[llm]'")
    command = ["python", "-m", "bench", "resume", *(["--quick"] if quick else [])]
    for name, value, default in (("--kills", kills, None), ("--points", points, None), ("--seed", seed, 1)):
        command += [] if value == default else [name, str(value)]
    kills = kills if kills is not None else QUICK_KILLS if quick else KILLS
    points = points if points is not None else QUICK_POINTS if quick else None
    start = time.monotonic()
    with nullcontext(ground) if ground else prepared(sandbox()) as ground:
        chosen = points_of(ground, random.Random(seed), kills, points)
        outcomes = try_all(ground, chosen, _show_progress)
        figures = figures_of(outcomes, ground, seed, time.monotonic() - start)
    causes = Counter(f"{name}: {each}" for one in outcomes for name in FAULTS for each in getattr(one, name))
    show(figures, table(figures), as_json, [f"{n} × {cause[:300]}" for cause, n in causes.most_common(20)])
    if report is not None:
        text = " ".join([*command, "--report", report.as_posix()])
        report.write_text(_PAGE.format(table=table(figures), command=text, **figures), "utf-8")


def sandbox() -> str:
    """Where commands run: in bubblewrap if that works."""
    return "auto" if Sandbox().available() is None else "off"


def _show_progress(done: int, of: int, outcome: Outcome) -> None:
    """Rewrite one line of a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {of} {'' if outcome.good else outcome.point}\x1b[K")
        sys.stderr.write("\r\x1b[K" if done == of else "")
        sys.stderr.flush()
    elif not outcome.good and os.environ.get("FRACTAL_DEBUG"):
        print(outcome, file=sys.stderr)


def figures_of(outcomes: Sequence[Outcome], ground: Ground, seed: int, seconds: float) -> dict[str, Any]:
    """The figures of all trials, and by kind of death."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.kind):
        kinds.setdefault(outcome.kind, []).append(outcome)
    return {
        **_counts(outcomes),
        "calls_in_flight_repeated": sum(each.in_flight for each in outcomes),
        "runs_that_asked_a_person": sum(bool(each.asked) for each in outcomes),
        "processes_left": sum(each.left for each in outcomes),
        "deaths": sum(len(each.died) for each in outcomes),
        "calls_that_change_files": sum(map(len, ground.goal.calls.values())),
        "distinct_places": len({call for each in outcomes for call in each.died}),
        "by_kind": {kind: _counts(some) for kind, some in kinds.items()},
        "sandbox": ground.sandbox,
        "seed": seed,
        "seconds": round(seconds, 1),
    }


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    faults = {name: sum(len(getattr(each, name)) for each in outcomes) for name in FAULTS}
    return {"points": len(outcomes), "finished": sum(each.finished for each in outcomes), **faults}


def table(figures: Figures) -> str:
    """The figures by kind of death, as markdown."""
    names = ("points", "finished", *FAULTS)
    rows = [[kind, *each.values()] for kind, each in figures["by_kind"].items()]
    rows.append(["**all**", *(figures[name] for name in names)])
    return markdown(["died in", *(name.replace("_", " ") for name in names)], rows)


_PAGE = """# A run that dies anywhere can be resumed

This page was written by `{command}`.

The benchmark starts `fractal run`, `answer` and `resume` as processes, with a model behind HTTP. They die: by
`os._exit` before, half-way through and after each call that changes a file, and by SIGKILL at random moments.
Then `fractal resume` continues until the run has ended, and the result is compared with an undisturbed run.

- The run: a question to a person; parallel children and a grandchild; operations with effects that files show
  (write, append, edit, copy, move, replace) and without (bash, sandbox `{sandbox}`); a step with arguments
  asked for when it is reached; a reply of the wrong form; a look in CHECK; a plan that CHECK rejects once; a
  result too long for its document; references between steps and attempts.
- Undisturbed, it makes {calls_that_change_files} calls that change files.
- Tried: {points} points, {deaths} deaths at {distinct_places} distinct places, in {seconds} s; seed {seed}.
- Finished: {finished}. A call that was in flight at a death was made again {calls_in_flight_repeated} times,
  which is allowed: at most one for each active loop. In {runs_that_asked_a_person} runs a person had to say
  whether a command had happened.

| column | counts |
| --- | --- |
| repeated calls | the reply was on disk and the model was asked again, by the count of its server |
| repeated steps | a command ran twice, by the lines that it left in a file |
| unreadable | a document did not parse, right after a death or at the end |
| temporary files | still there at the end |
| ledger broken | spent and reserved exceeded limit and overrun, or more was asked than charged |
| different result | status, result or a file differs from the undisturbed run |

{table}
"""
