"""Strict readers of what providers document about a conversation, and conversations to try them on.

Each `…_faults` returns what a provider would refuse, in plain words; nothing for what it accepts:

    openai_faults(messages)      # OpenAI's chat messages, as a request has them
    anthropic_faults(request)    # the body of Anthropic's messages: {"system", "messages"}
    gemini_faults(contents)      # Gemini's `contents`

`turns` are conversations for Hypothesis; `talk` is one of a given length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Messages = Sequence[Mapping[str, Any]]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAMES = ("read", "bash", "edit", "write", "done")


def openai_faults(messages: Messages) -> list[str]:
    """What OpenAI's chat completions refuse, with what Mistral, DeepSeek and Groq add to it."""
    return list(_openai(messages))


def _openai(messages: Messages) -> Iterator[str]:
    if not messages:
        yield "there is no message"
    ids: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
        if unknown := message.keys() - {"role", "content", "tool_calls", "tool_call_id"}:
            yield f"{place}: unknown members {sorted(unknown)}"
        if role not in ("system", "user", "assistant", "tool"):
            yield f"{place}: there is no role {role!r}"
        if role == "system" and place:
            yield f"{place}: the system's message is not the first one"
        if place == 0 and role in ("assistant", "tool"):
            yield f"{place}: a conversation does not begin with {role}"
        if not (isinstance(content, str) and content.strip()) and not (content is None and calls):
            yield f"{place}: the content is empty"
        if role != "tool" and waiting:
            yield f"{place}: {waiting} have no result before this message"
            waiting = []
        if role == "tool":
            given = message.get("tool_call_id")
            if given in waiting:
                waiting.remove(given)
            else:
                yield f"{place}: a result of {given!r}, which is no open call of the message before"
        elif "tool_call_id" in message:
            yield f"{place}: a result that is no message of a tool"
        if calls is not None:
            yield from _openai_calls(place, role, calls, ids)
            waiting = [call.get("id", "") for call in calls]
    if waiting:
        yield f"{waiting} have no result"
    if messages and messages[-1].get("role") == "assistant":
        yield "the last message is the model's own"


def _openai_calls(place: int, role: Any, calls: Any, ids: set[str]) -> Iterator[str]:
    if role != "assistant":
        yield f"{place}: calls of {role!r}"
    if not calls:
        yield f"{place}: a list of calls without any"
    for call in calls:
        function = call.get("function", {})
        if call.get("type") != "function":
            yield f"{place}: a call that is no function"
        if not isinstance(call.get("id"), str) or not call["id"] or len(call["id"]) > 40:
            yield f"{place}: the id {call.get('id')!r}"
        elif call["id"] in ids:
            yield f"{place}: the id {call['id']!r} occurs twice"
        ids.add(call.get("id", ""))
        if not NAME.fullmatch(str(function.get("name"))):
            yield f"{place}: the name {function.get('name')!r}"
        if not _is_object(function.get("arguments")):
            yield f"{place}: arguments that are no JSON object: {function.get('arguments')!r}"


def _is_object(text: Any) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (TypeError, ValueError):
        return False


def anthropic_faults(request: Mapping[str, Any]) -> list[str]:
    """What Anthropic's messages refuse: roles that do not take turns, calls without results, empty blocks."""
    return list(_anthropic(request))


def _anthropic(request: Mapping[str, Any]) -> Iterator[str]:
    messages, marks = request.get("messages", ()), 0
    system = request.get("system", ())
    blocks_of_system = [{"type": "text", "text": system}] if isinstance(system, str) else list(system)
    marks += sum("cache_control" in block for block in blocks_of_system)
    if any(not block.get("text", "").strip() for block in blocks_of_system):
        yield "system: an empty block"
    if not messages or messages[0].get("role") != "user":
        yield "the first message is not the user's"
    ids: set[str] = set()
    calls: list[str] = []
    for place, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        if role not in ("user", "assistant"):
            yield f"{place}: there is no role {role!r}"
        if place and messages[place - 1].get("role") == role:
            yield f"{place}: {role} twice in a row"
        if not blocks:
            yield f"{place}: no content"
        results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if sorted(map(str, results)) != sorted(calls):
            yield f"{place}: results of {results} for the calls {calls}"
        kinds = [block.get("type") for block in blocks]
        if results and "text" in kinds[: kinds.index("tool_result")]:
            yield f"{place}: text before the results"
        calls = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        for block in blocks:
            marks += "cache_control" in block
            yield from (f"{place}: {fault}" for fault in _anthropic_block(block, role, ids))
    if calls:
        yield f"{calls} have no result"
    if messages and messages[-1].get("role") == "assistant":
        last = messages[-1].get("content")
        yield f"the last message is the model's own: {str(last)[:40]}"
    if marks > 4:
        yield f"{marks} marks of the cache; at most 4"


def _anthropic_block(block: Mapping[str, Any], role: Any, ids: set[str]) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text":
        if not str(block.get("text") or "").strip():
            yield "an empty text"
    elif kind == "tool_use":
        if role != "assistant":
            yield "a call that is not the model's"
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", str(block.get("id"))) or block.get("id") in ids:
            yield f"the id {block.get('id')!r}"
        ids.add(str(block.get("id")))
        if not NAME.fullmatch(str(block.get("name"))):
            yield f"the name {block.get('name')!r}"
        if not isinstance(block.get("input"), dict):
            yield "arguments that are no object"
    elif kind == "image":
        source = block.get("source", {})
        if role != "user" or source.get("type") != "base64" or not source.get("data"):
            yield "an image that is not the user's, or has no data"
        if source.get("media_type") not in ("image/png", "image/jpeg", "image/gif", "image/webp"):
            yield f"an image of the type {source.get('media_type')!r}"
    elif kind == "tool_result":
        if role != "user":
            yield "a result that is not the user's"
        content = block.get("content")
        texts = [content] if isinstance(content, str) else [each.get("text") for each in content or ()]
        if not texts or any(not str(text or "").strip() for text in texts):
            yield "an empty result"
    else:
        yield f"there is no block {kind!r}"


def gemini_faults(contents: Messages) -> list[str]:
    """What Gemini refuses: as many answers as calls, right after them, in their order; no empty part."""
    return list(_gemini(contents))


def _gemini(contents: Messages) -> Iterator[str]:
    if not contents or contents[0].get("role") != "user":
        yield "the first content is not the user's"
    calls: list[str] = []
    for place, content in enumerate(contents):
        role, parts = content.get("role"), content.get("parts") or ()
        if role not in ("user", "model"):
            yield f"{place}: there is no role {role!r}"
        if place and role == "model" == contents[place - 1].get("role"):
            yield f"{place}: the model twice in a row"
        if not parts:
            yield f"{place}: no part"
        answers = [part["function_response"] for part in parts if "function_response" in part]
        if [each.get("name") for each in answers] != calls:
            yield f"{place}: answers of {[each.get('name') for each in answers]} for the calls {calls}"
        made = [part["function_call"] for part in parts if "function_call" in part]
        if made and role != "model":
            yield f"{place}: a call that is not the model's"
        for call in made:
            if not NAME.fullmatch(str(call.get("name"))):
                yield f"{place}: the name {call.get('name')!r}"
            if not isinstance(call.get("args"), dict):
                yield f"{place}: arguments that are no object"
        if any(not isinstance(each.get("response"), dict) or not each["response"] for each in answers):
            yield f"{place}: an answer that is no object"
        if any(not str(part["text"] or "").strip() for part in parts if "text" in part):
            yield f"{place}: an empty text"
        calls = [str(call.get("name")) for call in made]
    if calls:
        yield f"{calls} have no answer"


def call(id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    """A call as an assistant's message has it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def talk(turns: int, calls: int = 1, result: str = "a result") -> list[dict[str, Any]]:
    """A conversation of so many turns with so many calls each, before the model's next reply."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work in a folder."},
        {"role": "user", "content": "Count the lines."},
    ]
    for turn in range(1, turns + 1):
        ids = [f"c{turn}_{number}" for number in range(1, calls + 1)]
        made = [call(id, NAMES[at % len(NAMES)], json.dumps({"path": id})) for at, id in enumerate(ids)]
        messages.append({"role": "assistant", "content": None, "tool_calls": made})
        messages += [{"role": "tool", "tool_call_id": id, "content": f"{result} of {id}"} for id in ids]
    return messages


_WORDS = st.text(min_size=1, max_size=30).filter(str.strip)
_OBJECT = st.dictionaries(st.sampled_from(("path", "text", "lines")), st.text(max_size=20) | st.integers())


@st.composite
def turns(draw: st.DrawFn, most: int = 5) -> list[dict[str, Any]]:
    """A valid conversation: each call has its result, and sometimes a word of the user follows."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": draw(_WORDS)},
        {"role": "user", "content": draw(_WORDS)},
    ]
    for turn in range(draw(st.integers(0, most))):
        names = draw(st.lists(st.sampled_from(NAMES), max_size=3))
        made = [
            call(f"c{turn}_{at}", name, json.dumps(draw(_OBJECT), ensure_ascii=False))
            for at, name in enumerate(names)
        ]
        said = draw(_WORDS) if not made else draw(st.none() | _WORDS)
        messages.append({"role": "assistant", "content": said, **({"tool_calls": made} if made else {})})
        messages += [{"role": "tool", "tool_call_id": each["id"], "content": draw(_WORDS)} for each in made]
        if not made or draw(st.booleans()):
            messages.append({"role": "user", "content": draw(_WORDS)})
    return messages
