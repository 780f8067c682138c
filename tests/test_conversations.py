"""What is sent to a provider is a conversation by its documented rules; their readers find each fault."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import pytest
from conversations import anthropic_faults, call, gemini_faults, openai_faults, talk, turns
from hypothesis import given
from hypothesis import strategies as st

from runtime.models.dialects import marked, mistral, once, signed
from runtime.models.provider import wire

needs_litellm = pytest.mark.skipif(
    find_spec("litellm") is None, reason="litellm is not installed: pip install 'fractal-runtime[llm]'"
)
Message = dict[str, Any]


def anthropic(messages: list[Message]) -> dict[str, Any]:
    """The body of a request to Anthropic, as litellm makes it."""
    import_module("runtime.models.litellm")._litellm()
    module = import_module("litellm.llms.anthropic.chat.transformation")
    said = copy.deepcopy(messages)
    return module.AnthropicConfig().transform_request("claude-sonnet-4-5", said, {"max_tokens": 9}, {}, {})


def gemini(messages: list[Message]) -> list[Message]:
    """The contents of a request to Gemini, as litellm makes them; the system's message stands beside them."""
    import_module("runtime.models.litellm")._litellm()
    module = import_module("litellm.llms.vertex_ai.gemini.transformation")
    return module._gemini_convert_messages_with_history(copy.deepcopy(messages[1:]), model="gemini-2.5-pro")


def sent(messages: list[Message]) -> list[Message]:
    return [dict(wire(each)) for each in messages]


@given(turns())
def test_a_valid_conversation_is_accepted_by_openai(messages):
    assert openai_faults(messages) == []
    assert openai_faults(sent(messages)) == []


@needs_litellm
@given(turns())
def test_a_valid_conversation_is_accepted_by_anthropic_with_and_without_marks(messages):
    for form in (sent(messages), marked(sent(messages))):
        assert anthropic_faults(anthropic(form)) == []


@needs_litellm
@given(turns())
def test_a_valid_conversation_is_accepted_by_gemini(messages):
    assert gemini_faults(gemini(once(sent(messages)))) == []


@given(turns())
def test_a_conversation_has_the_form_that_mistral_wants(messages):
    form = mistral(sent(messages))
    assert openai_faults(form) == []
    roles = [each["role"] for each in form]
    assert ("tool", "user") not in pairwise(roles)
    ids = [each["id"] for message in form for each in message.get("tool_calls", ())]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", id) for id in ids)


@given(turns())
def test_the_first_call_of_each_reply_is_signed_for_gemini(messages):
    for message in signed(sent(messages)):
        calls = message.get("tool_calls", ())
        assert ["extra_content" in each for each in calls] == [not at for at in range(len(calls))]


def test_equal_calls_of_a_reply_become_one_with_all_results():
    messages = talk(1, calls=2)
    for each in messages[2]["tool_calls"]:
        each["function"] = {"name": "read", "arguments": "{}"}
    form = once(messages)
    assert openai_faults(form) == [] and len(form) == 4
    assert form[3]["content"] == "a result of c1_1\n\nThe same call again:\na result of c1_2"
    assert messages[3]["content"] == "a result of c1_1", "what was given is not changed"


@given(turns(), st.sampled_from((mistral, signed, once)))
def test_a_dialect_begins_a_longer_conversation_as_it_began_the_shorter_one(messages, dialect):
    whole = dialect(messages)
    for end, message in enumerate(messages):
        if message["role"] == "assistant":  # what was sent before this reply came
            before = dialect(messages[:end])
            assert whole[: len(before)] == before


STRANGE = st.sampled_from(("", " ", "read<|x|>", "a" * 99, "ü", "functions.read:0", "read"))
WRITTEN = st.sampled_from(("", "null", "[1]", '{"a": NaN}', '{"a"', '"x"', '{"a": 1}'))


@given(turns(), st.data())
def test_whatever_a_model_wrote_is_sent_in_a_form_that_is_accepted(messages, data):
    for message in messages:
        for each in message.get("tool_calls", ()):
            each["function"] = {"name": data.draw(STRANGE), "arguments": data.draw(WRITTEN)}
        if message["role"] == "tool" or message.get("tool_calls"):
            message["content"] = data.draw(st.sampled_from(("", " \n", "a result")))
    assert openai_faults(sent(messages)) == []


Mutation = Callable[[list[Message]], object]


def at_call(change: Callable[[Message], object]) -> Mutation:
    return lambda messages: change(messages[2]["tool_calls"][0])


def named(name: Any) -> Mutation:
    return at_call(lambda each: each["function"].update(name=name))


def given_as(arguments: Any) -> Mutation:
    return at_call(lambda each: each["function"].update(arguments=arguments))


OPENAI_MUTATIONS: dict[str, Mutation] = {
    "no result": lambda m: m.pop(3),
    "no result at the end": lambda m: m.pop(),
    "a result twice": lambda m: m.insert(4, m[3]),
    "a result of another call": lambda m: m[3].update(tool_call_id="other"),
    "a result before its call": lambda m: m.insert(2, m.pop(3)),
    "a word between call and result": lambda m: m.insert(3, {"role": "user", "content": "Wait."}),
    "an empty result": lambda m: m[3].update(content=""),
    "a blank task": lambda m: m[1].update(content=" \n"),
    "no content": lambda m: m[1].update(content=None),
    "a reply with nothing": lambda m: m.insert(2, {"role": "assistant", "content": ""}),
    "an empty list of calls": lambda m: m.insert(2, {"role": "assistant", "content": "x", "tool_calls": []}),
    "the system later": lambda m: m.insert(2, {"role": "system", "content": "Now check."}),
    "another role": lambda m: m[1].update(role="function"),
    "begins with the model": lambda m: m.__setitem__(slice(0, 2), []),
    "ends with the model": lambda m: m.append({"role": "assistant", "content": "5"}),
    "an unknown member": lambda m: m[1].update(at=5),
    "calls of the user": lambda m: m[1].update(tool_calls=[call("x", "read")]),
    "an id twice": lambda m: m.extend(copy.deepcopy(m[2:4])),
    "no id": at_call(lambda each: each.pop("id")),
    "no type": at_call(lambda each: each.pop("type")),
    "a long id": at_call(lambda each: each.update(id="x" * 41)),
    "a strange name": named("read file"),
    "a long name": named("a" * 65),
    "no name": named(""),
    "a list of arguments": given_as("[1]"),
    "an object of arguments": given_as({"path": "a"}),
    "broken arguments": given_as('{"path"'),
    "no number": given_as('{"a": NaN}'),
    "nothing": lambda m: m.clear(),
}


@pytest.mark.parametrize("mutation", OPENAI_MUTATIONS.values(), ids=OPENAI_MUTATIONS.keys())
def test_each_fault_of_a_conversation_is_found(mutation):
    messages = talk(2)
    assert openai_faults(messages) == []
    mutation(messages)
    assert openai_faults(messages)


@given(turns(), st.data())
def test_a_conversation_without_one_of_its_results_is_refused(messages, data):
    places = [at for at, each in enumerate(messages) if each["role"] == "tool"]
    if places:
        messages.pop(data.draw(st.sampled_from(places)))
        assert openai_faults(messages)


def anthropic_talk() -> dict[str, Any]:
    """Two turns as Anthropic has them."""

    def turn(id: str) -> list[Message]:
        use = {"type": "tool_use", "id": id, "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": id, "content": "text"}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    task = {"role": "user", "content": [{"type": "text", "text": "Count."}]}
    return {"system": [{"type": "text", "text": "Rules."}], "messages": [task, *turn("c1"), *turn("c2")]}


def block(place: int, **change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["messages"][place]["content"][0].update(change)


TEXT = {"type": "text", "text": "x"}
ANTHROPIC_MUTATIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no result": lambda b: b["messages"].__setitem__(2, {"role": "user", "content": [TEXT]}),
    "a result without a call": lambda b: b["messages"][0]["content"].append(b["messages"][2]["content"][0]),
    "text before a result": lambda b: b["messages"][2]["content"].insert(0, TEXT),
    "the user twice": lambda b: b["messages"].insert(0, {"role": "user", "content": [TEXT]}),
    "begins with the model": lambda b: b["messages"].pop(0),
    "ends with the model": lambda b: b["messages"].append({"role": "assistant", "content": [TEXT]}),
    "ends with a call": lambda b: b["messages"].pop(),
    "the role system": lambda b: b["messages"][0].update(role="system"),
    "no block": lambda b: b["messages"][0].update(content=[]),
    "an empty text": block(0, text=" "),
    "an empty result": block(2, content=""),
    "an empty block of a result": block(2, content=[{"type": "text", "text": ""}]),
    "an id twice": lambda b: (block(3, id="c1")(b), block(4, tool_use_id="c1")(b)),
    "a strange id": lambda b: (block(1, id="c.1")(b), block(2, tool_use_id="c.1")(b)),
    "a strange name": block(1, name="read file"),
    "arguments as text": block(1, input="{}"),
    "another block": block(0, type="thought"),
    "an empty system": lambda b: b.update(system=[{"type": "text", "text": ""}]),
    "five marks": lambda b: [each["content"][0].update(cache_control={}) for each in b["messages"]],
}


@pytest.mark.parametrize("mutation", ANTHROPIC_MUTATIONS.values(), ids=ANTHROPIC_MUTATIONS.keys())
def test_each_fault_of_a_request_to_anthropic_is_found(mutation):
    body = anthropic_talk()
    assert anthropic_faults(body) == []
    mutation(body)
    assert anthropic_faults(body)


def gemini_talk() -> list[Message]:
    """Two turns as Gemini has them."""
    made = {"role": "model", "parts": [{"function_call": {"name": "read", "args": {}}}]}
    answer = {
        "role": "user",
        "parts": [{"function_response": {"name": "read", "response": {"content": "x"}}}],
    }
    return copy.deepcopy([{"role": "user", "parts": [{"text": "Count."}]}, made, answer, made, answer])


def part(place: int, kind: str, **change: Any) -> Callable[[list[Message]], object]:
    return lambda contents: contents[place]["parts"][0][kind].update(change)


GEMINI_MUTATIONS: dict[str, Callable[[list[Message]], object]] = {
    "no answer": lambda c: c.__setitem__(2, {"role": "user", "parts": [{"text": "x"}]}),
    "an answer too much": lambda c: c[2]["parts"].append(c[2]["parts"][0]),
    "an answer of another": part(2, "function_response", name="bash"),
    "the model twice": lambda c: c.append({"role": "model", "parts": [{"text": "x"}]}) or c.append(c[-1]),
    "begins with the model": lambda c: c.pop(0),
    "ends with a call": lambda c: c.pop(),
    "another role": lambda c: c[1].update(role="assistant"),
    "no part": lambda c: c[0].update(parts=[]),
    "an empty text": lambda c: c[0].update(parts=[{"text": " "}]),
    "a strange name": lambda c: (
        part(1, "function_call", name="a b")(c),
        part(2, "function_response", name="a b")(c),
    ),
    "arguments as text": part(1, "function_call", args="{}"),
    "an answer as text": part(2, "function_response", response="x"),
    "a call of the user": lambda c: c[1].update(role="user"),
}


@pytest.mark.parametrize("mutation", GEMINI_MUTATIONS.values(), ids=GEMINI_MUTATIONS.keys())
def test_each_fault_of_contents_for_gemini_is_found(mutation):
    contents = gemini_talk()
    assert gemini_faults(contents) == []
    mutation(contents)
    assert gemini_faults(contents)


@given(turns())
def test_marks_are_few_and_change_no_text(messages):
    form = marked(sent(messages))
    places = [at for at, each in enumerate(form) if "cache_control" in json.dumps(each)]
    assert {0, len(messages) - 1} <= set(places) and len(places) <= 3
    assert [_plain(each) for each in form] == sent(messages)


@given(turns())
def test_the_end_of_the_request_before_is_marked_again(messages):
    said = [at for at, each in enumerate(messages) if each["role"] == "assistant"]
    if said:
        assert "cache_control" in json.dumps(marked(sent(messages))[said[-1] - 1])


def _plain(message: Message) -> Message:
    """A message without its mark."""
    content = message["content"]
    text = content[0]["text"] if isinstance(content, list) else content
    return {**{name: each for name, each in message.items() if name != "cache_control"}, "content": text}
