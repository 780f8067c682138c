"""Fuzzed replies, criteria, messages and tool files: each is accepted or refused with our own error."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playing import ACCEPT, plan

from kernel.asking.replies import Typed, gate_plan
from kernel.asking.turn import REPLIES, TurnReply
from kernel.document.escaping import to_json
from kernel.errors import ReplyError
from kernel.loop.ask import parsed_reply
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.pattern import Fault, load
from runtime.proving.criteria import check_criterion
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.text.json_reader import read_reply
from runtime.workspace.inbox import Inbox

LARGE = ["(" * 3_000 + ")" * 3_000, "{{ steps[" + "9" * 5_000 + "].result }}", "x" * 5_000]
KINDS: list[Any] = [None, True, -1, 0, 2**80, 1e300, [], {}, [[]], {"a": {}}]
NASTY = st.sampled_from(
    ["", "\0", "\ud800", "a{99999999999999}", "{{ steps[1].result | a }}", *LARGE, *KINDS]
)
VALUE = st.recursive(NASTY | st.text(max_size=20), lambda inner: st.lists(inner, max_size=2), max_leaves=4)
WHOLE: list[Any] = [
    plan(
        {"tool": "read", "args": {"path": "a"}}, success=[{"file": "a", "has": "b"}, {"step": 1, "has": "c"}]
    ),
    {**ACCEPT, "look": {"tool": "read", "args": {"path": "a"}}},
    {"tool": "read", "args": {"path": "a"}, "blocked": "", "skip": ""},
    {
        "calls": [
            {"tool": "plan", "args": {"approach": "as it is", "confidence": "high", "checks": ["true"]}},
            {"tool": "edit", "args": {"path": "a", "lines": "1-2", "new": "b"}},
            {"tool": "use", "args": {"tool": "calc", "args": {"expression": "1"}}},
            {"tool": "subtask", "args": {"task": "a part", "tool": "code"}},
            {"tool": "done", "args": {"answer": "x", "checks": ["true"], "keep": ["true"], "why": "x"}},
            {"tool": "ask", "args": {"question": "which?"}},
        ],
        "text": "a thought",
    },
    {"done": {"answer": "x"}, "plan": "as it is"},
]
SYSTEM = Path(__file__).parents[2] / "system"
CATALOGUE = Catalogue([SYSTEM])


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid reply with one or two values replaced."""
    value = json.loads(json.dumps(draw(st.sampled_from(WHOLE))))
    for _ in range(draw(st.integers(1, 2))):
        at = value
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and draw(st.booleans()):
                at = at[key]
                continue
            at[key] = deepcopy(draw(VALUE))  # drawn values are shared between cases
            break
    return value


def examples_of(examples: int, *strategies: Any) -> Callable[[Any], Any]:
    quiet = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    return lambda test: quiet(given(*strategies)(test))


async def gate(reply: Typed | TurnReply) -> None:
    if isinstance(reply, TurnReply):
        to_json(reply.model_dump())  # it is written into the document
        if reply.steps:
            gate_plan(reply.steps, CATALOGUE, may_split=True, retry=False)


def take_reply(value: Any, phase: str) -> None:
    try:
        asyncio.run(parsed_reply(read_reply, phase, json.dumps(value), gate))
    except ReplyError as error:
        assert str(error)


def take_criterion(value: Any) -> None:
    criterion = value if isinstance(value, dict) else {"file": value, "has": value}
    criterion.pop("run", None)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").write_text("b")
        context = OperationContext(Path(folder), Sandbox("off"))
        verdict = asyncio.run(check_criterion(criterion, context, lambda n: "c", None, {}))
    assert verdict.passed in (True, False, None)


def take_message(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inbox = Path(folder) / "inbox"
        inbox.mkdir()
        (inbox / "0000-answer.json").write_bytes(raw)
        warnings: list[str] = []
        taken = list(Inbox(Path(folder)).messages(("answer",), warnings.append))
        assert len(taken) + len(warnings) == 1


def take_tool(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tools" / "x" / "pattern.md"
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8", errors="surrogatepass")
        stat = path.stat()
        got = load(path, stat.st_mtime_ns, stat.st_size)
        assert isinstance(got, Tool) or (isinstance(got, Fault) and got.message)


PHASE = st.sampled_from(sorted(REPLIES))
CRITERION = st.fixed_dictionaries(
    {}, optional={"file": VALUE, "has": VALUE, "step": VALUE, "same": VALUE, "judge": VALUE}
)
MESSAGE = st.binary(max_size=40) | VALUE.map(
    lambda text: json.dumps({"kind": "answer", "text": text}).encode()
)
FIELDS = ("name", "args", "required", "effects", "sample", "states", "run", "timeout", "rank", "status")
HEAD = st.fixed_dictionaries(
    {"description": st.just("d") | VALUE}, optional=dict.fromkeys(FIELDS, VALUE)
).map(lambda head: f"---\n{json.dumps(head)}\n---\nText.\n")
TOOL = HEAD | st.text(max_size=60).map("---\n".__add__)
BOUNDARIES: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
    "reply": (take_reply, (mutated(), PHASE)),
    "criterion": (take_criterion, (CRITERION,)),
    "message": (take_message, (MESSAGE,)),
    "tool": (take_tool, (TOOL,)),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_fuzzed_input_is_accepted_or_refused(name: str) -> None:
    take, strategies = BOUNDARIES[name]
    examples_of(100, *strategies)(take)()


@pytest.mark.night
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", BOUNDARIES)
def test_20000_fuzzed_inputs_are_accepted_or_refused(name: str) -> None:
    take, strategies = BOUNDARIES[name]
    examples_of(20_000, *strategies)(take)()
