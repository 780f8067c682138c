"""The loop of a dream, filled in by code: one step for each stage, and a verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kernel.asking.responder import Ask
from kernel.document.model import Document, Step
from runtime.memory import DREAM as KIND

REPORT = "report"
"""The stage whose result is shown in full."""
_PHASES = re.compile(r"\bphases? ((?:[a-z](?:, ?| and )?)+)(?=[;.]|$)")
_SINCE = re.compile(r"\bsince ([\w:.+-]+?)(?=[;.]?(?:\s|$))")
_WITHOUT = re.compile(r"\bwithout ([a-z-]+(?:, ?[a-z-]+)*)")


@dataclass(frozen=True)
class Order:
    """The order for a dream."""

    phases: tuple[str, ...] = ()
    since: str = ""
    without: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """The order in words; `order_of` reads them."""
        parts = [f"phase {', '.join(self.phases)}" if self.phases else "all phases"]
        parts += [f"since {self.since}"] if self.since else []
        parts += [f"without {', '.join(self.without)}"] if self.without else []
        return f"Dream: {'; '.join(parts)}."


def order_of(task: str) -> Order:
    """The order in a dream's task."""
    phases, since, without = (each.search(task) for each in (_PHASES, _SINCE, _WITHOUT))
    return Order(
        tuple(re.findall(r"\b[a-z]\b", phases[1])) if phases else (),
        since[1] if since else "",
        tuple(re.split(r", ?", without[1])) if without else (),
    )


def reply(ask: Ask) -> dict[str, Any]:
    """The reply of a phase; raises `Declined` for a phase that a dream does not have."""
    from runtime.reflexes.coded import reply_to  # only a dream needs it

    plan, check = partial(_plan, ask.document), partial(_verdict, ask.document)
    return reply_to(ask, "a dream", ask.document.text(1, "task"), plan, check)


def _plan(document: Document) -> dict[str, Any]:
    from runtime.memory.dream.stages import chosen

    order = order_of(document.text(1, "task"))
    stages = chosen(order.phases, order.without)
    if not stages:
        return {"cannot": "nothing is left to be done: every stage of these phases is switched off"}
    since = {"since": order.since} if order.since else {}
    return {
        "approach": f"{len(stages)} stages, one after the other; each happens wholly or not at all",
        "confidence": "high",
        "steps": [
            {"tool": KIND, "args": {"stage": each.name, "dream": document.meta.id, **since}}
            for each in stages
        ],
        "success": [{"check": "dreamed", "dream": document.meta.id, "stage": stages[-1].name}],
        "rationale": "\n".join(f"{each.name}: {each.does}" for each in stages),
    }


def _verdict(document: Document) -> dict[str, Any]:
    steps = [document.steps.get(n, planned) for n, planned in document.planned.items()]
    issues = [f"{_stage(each.args)}: {_first(each.result)}" for each in steps if each.state != "done"]
    issues += [f"{_stage(each.args)}: {each.result}" for each in steps if each.evidence.get("failed")]
    reports = [f"{_stage(each.args)}: {_output_of(each)}" for each in steps if each.state == "done"]
    output = "\n".join(reports) or "nothing was done"
    if issues:
        failed = {"validation": "fail", "issues": issues, "decision": "ESCALATE"}
        return {**failed, "learned": "; ".join(issues)[:1000], "output": output}
    return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}


def _stage(args: Mapping[str, Any] | None) -> str:
    return str((args or {}).get("stage", "?"))


def _output_of(step: Step) -> str:
    """A stage in one line; the report in full."""
    text = step.result or ""
    return text.replace("{{", "{ {") if _stage(step.args) == REPORT else _first(text)


def _first(text: str | None) -> str:
    """The first line of a result."""
    return (text or "was not run").partition("\n")[0].replace("{{", "{ {")
