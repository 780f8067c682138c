"""Every document renders to a conversation that providers accept, and the same document to the same bytes."""

from __future__ import annotations

import json
from typing import Any

from conversations import openai_faults
from hypothesis import given
from hypothesis import strategies as st

from kernel.asking import conversation as talk
from kernel.asking.prompt import NOT_YET
from kernel.asking.responder import estimate_tokens
from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.document.parser import parse
from runtime.catalogue.catalogue import Catalogue
from runtime.workspace.workspace import shipped_system

CATALOGUE = Catalogue([shipped_system()])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SAID = TEXT.filter(str.strip)
TOOLS = st.sampled_from(["read", "bash", "edit", "calc", "use", "nope", "", "code", "a b", "subtask"])


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A loop by turns, with anything that may stand in its notes and steps."""
    planned: dict[int, Step] = {}
    steps: dict[int, Step] = {}
    plan: list[Note] = [Note("work", draw(SAID))]
    done: list[Note] = []
    told: list[Note] = [Note("task", draw(SAID), "person")]
    for turn in range(draw(st.integers(0, 1)), draw(st.integers(1, 5))):
        source = f"turn {turn}" if turn else ""
        for _ in range(draw(st.integers(0, 3))):
            n = len(planned) + 1
            tool, args = draw(TOOLS), draw(st.dictionaries(st.sampled_from(["path", "command", "x"]), TEXT))
            evidence: dict[str, Any] = {"turn": turn} if turn else {}
            planned[n] = Step(n, "planned", tool, args if tool else None, draw(SAID), evidence=evidence)
            if draw(st.booleans()):
                state = draw(st.sampled_from(["done", "failed", "skipped", "unknown", "struck"]))
                steps[n] = Step(n, state, tool, args if tool else None, result=draw(TEXT), evidence=evidence)
        if turn and draw(st.booleans()):
            plan += [
                Note("approach", draw(SAID), "model:m", source),
                Note("confidence", "low", "model:m", source),
            ]
        for key in draw(st.lists(st.sampled_from([talk.THOUGHT, talk.PROPOSED, talk.HEARD, NOT_YET, "ask"]))):
            done.append(Note(key, draw(SAID), "model:m", source or "turn 1"))
        if draw(st.booleans()):
            done.append(Note(talk.CHECKS, json.dumps({"run": draw(SAID)}), "model:m", source or "turn 1"))
        told.append(Note(draw(st.sampled_from(["question", "answer", "guidance"])), draw(SAID), "person"))
    meta = Meta("system-abcdef", "abcdef", phase="do", extra={"window": 128_000, "heard": [0, 1]})
    parts = {
        1: Section(notes=tuple(told)),
        2: Section(notes=tuple(plan), steps=planned),
        3: Section(notes=tuple(done), steps=steps),
    }
    return Document(meta, parts)


def conversation(document: Document, window: int = 128_000) -> talk.Prompt:
    sources = talk.Sources(
        CATALOGUE, estimate_tokens, lambda step: step.result or "", lambda path: "", lambda path: path, window
    )
    return talk.conversation(document, sources)


@given(documents(), st.sampled_from([1_000, 8_192, 128_000]))
def test_a_conversation_keeps_the_rules_of_providers(document: Document, window: int):
    prompt = conversation(document, window)
    assert openai_faults(list(prompt.messages)) == []
    assert [each["role"] for each in prompt.messages[:2]] == ["system", "user"]


@given(documents())
def test_a_document_that_was_written_and_read_gives_the_same_bytes(document: Document):
    again = parse(render(document, 1))
    assert json.dumps(conversation(again).messages) == json.dumps(conversation(document).messages)
