"""One call of one tool as a run of its own: planned and judged by code, recorded and guarded like any run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernel.budget import estimate_tokens
from kernel.document import Document
from kernel.errors import Declined
from kernel.references import escaped
from kernel.responder import FREE, Ask, Reply, Tier, Usage
from kernel.text import to_json
from kernel.tools import Tool


class OneCall:
    """The rung that plans this one call at the top of a run, and says of its result what it is."""

    name = "call"
    tier: Tier = "reflex"
    reads_prompt = False

    def __init__(self, tool: Tool, args: Mapping[str, Any]) -> None:
        self.tool = tool
        self.args = args

    @property
    def task(self) -> str:
        """The call in words: the task of the run."""
        return f"call {self.tool.name} {to_json(dict(self.args))}"

    def offers(self, task: str, document: Document) -> float | None:
        """Sure of the first attempt at the top, and of nothing else."""
        return 1.0 if not document.meta.parent and document.meta.attempt == 1 else None

    def estimate(self, ask: Ask) -> Usage:
        """Nothing: no model is called."""
        return FREE

    def count(self, text: str) -> int:
        """Tokens by the conservative estimate."""
        return estimate_tokens(text)

    async def answer(self, ask: Ask) -> Reply:
        """The plan of the one call, or the verdict on it."""
        if self.offers(ask.document.task, ask.document) is None:
            raise Declined("the one call was made")
        if ask.phase == "check":
            reply = self._verdict(ask.document)
        elif ask.phase in ("understand", "plan", "fused"):
            reply = self._plan(ask.document)
        else:
            raise Declined(f"one call has nothing to say in {ask.phase.upper()}")
        return Reply(json.dumps(reply, ensure_ascii=False), f"call:{self.tool.name}")

    def _plan(self, document: Document) -> dict[str, Any]:
        step: dict[str, Any] = {"tool": self.tool.name}
        if self.tool.guided:
            step["what"] = escaped(str(self.args.get("what", "")))
        else:
            step["args"] = escaped(dict(self.args))
        return {
            "task": document.task,
            "context": [],
            "open": [],
            "approach": f"one call of {self.tool.name}",
            "confidence": "high",
            "steps": [step],
            "success": [{"step": 1, "has": "^"}],
            "rationale": "it was asked for as a call",
        }

    def _verdict(self, document: Document) -> dict[str, Any]:
        number, step = max(document.steps.items())
        if step.state == "done":
            output = f"{{{{ steps[{number}].result }}}}"
            return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}
        why = (step.result or step.state)[:1000]
        return {"validation": "fail", "issues": [why], "decision": "ESCALATE", "learned": why}
