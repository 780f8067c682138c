"""A conversation for a model whose server takes no tools: calls and results as text, the tools in words.

A longer conversation is written with the same beginning, so that the server's cache of prompts still fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from kernel.asking import lenient
from kernel.asking.messages import Message, calls_of, fenced
from kernel.document.escaping import to_json
from kernel.errors import ReplyError
from runtime.models.marks import SHOWN, calls_in
from runtime.models.tool_calls import turn_text
from runtime.text.json_reader import read_reply

FORM = (
    'Reply with one JSON object and nothing else: {"text": "…", "calls": [{"tool": NAME, "args": {…}}, …]}. '
    "Each call names a tool of this list; leave out what you do not need."
)
"""The form of each reply, after the system message."""
RESULTS = "Results:"
_ALONE = re.compile(r"(?:```\w*\s*)?\{.*\}(?:\s*```)?", re.DOTALL)


def conversation(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with roles system, user and assistant, and no calls; neighbours of one role are joined."""
    written: list[dict[str, Any]] = []
    for (role, text), message in zip(_written(messages, tools), messages, strict=True):
        if written and written[-1]["role"] == role:
            written[-1]["content"] += f"\n\n{text}"
        else:
            written.append({"role": role, "content": text})
        if images := message.get("images"):
            written[-1]["images"] = [*written[-1].get("images", ()), *images]
    return written


def listed(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools of a request as text, a line each: `read(path: string, lines?: string): text of a file`."""
    return "\n".join(["Tools:", *(_line(tool["function"]) for tool in tools)])


def schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON Schema of a reply in this form."""
    names = {"enum": [tool["function"]["name"] for tool in tools]}
    call = {"type": "object", "properties": {"tool": names, "args": {"type": "object"}}}
    calls = {"type": "array", "items": {**call, "required": ["tool", "args"]}}
    properties = {"text": {"type": "string"}, "calls": calls}
    return {"type": "object", "properties": properties, "required": ["calls"]}


def read_turn(text: str) -> str:
    """The reply of a turn, in the form of `turn_text`, from what a model wrote in this one.

    A text without an object is a reply without calls, or has them with the marks of the model's training.
    What cannot be read stays as it is: the loop's own reader says what is wrong with it.
    """
    marked = calls_in(text)
    called = turn_text(marked.calls, marked.before) if marked and marked.calls else ""
    if called and marked and marked.opened:
        return called
    try:
        data = read_reply(text)
    except ReplyError:
        if called:
            return called
        return text if "{" in text or not text.strip() else turn_text((), text)
    if "calls" not in data and (one := _called(data)):
        if called:
            return called
        data = {"calls": [one]}
    if not {"calls", "text"} & data.keys():
        return text
    calls = [
        _called(each) or {"tool": "", "bad": to_json(each)} for each in lenient.listed(data.pop("calls", ""))
    ]
    said = data.pop("text", "")
    return to_json({"calls": calls, "text": _text(said), **data})


def turn_in(text: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The reply of a turn from the text of a server that takes tools and did not read the calls in it.

    These are one object in this form with declared tools only, also with a text alone, or what stands with
    the marks of a model's training. Such a mark that cannot be read is a call that cannot be made, and no
    answer. Any other text is what the model says.
    """
    names = {tool["function"]["name"] for tool in tools}
    said = turn_text((), text)
    marked = calls_in(text)
    if _ALONE.fullmatch(text.strip()):
        try:
            read = json.loads(read_turn(text.strip()))
        except ValueError:
            return said
        called = read.get("calls") if isinstance(read, dict) else None
        if marked and len(marked.calls) > len(called or ()):
            called = (read := json.loads(turn_text(marked.calls, marked.before)))["calls"]
        if not called:
            answers = isinstance(read, dict) and read.keys() == {"calls", "text"} and read["text"]
            return to_json(read) if answers else said
        return to_json(read) if all(each["tool"] in names for each in called) else said
    if not marked:
        return said
    declared = all(lenient.tool_name(call.name) in names for call in marked.calls)
    declared = declared and (marked.marked or marked.ends or not marked.before)
    if marked.calls and (declared or (marked.ends and marked.opened)):
        return turn_text(marked.calls, marked.before)
    if marked.opened and not marked.calls:
        bad = {"tool": "?", "bad": text[len(marked.before) :].strip()[:SHOWN]}
        return to_json({"calls": [bad], "text": marked.before})
    return said


def _written(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Role and text of each message."""
    open_calls: dict[str, str] = {}
    for place, message in enumerate(messages):
        role, content = message["role"], message.get("content") or ""
        before = messages[place - 1]["role"] if place else ""
        if role == "assistant":
            called = calls_of(message)
            open_calls = {id: f"call {n}: {name} {args}" for n, (id, name, args) in enumerate(called, 1)}
            yield role, _reply(content, called)
        elif role == "tool":
            head = f"## {open_calls.get(message['tool_call_id'], 'a call')}"
            result = f"{head}\n\n{fenced(content)}"
            yield "user", result if before == "tool" else f"{RESULTS}\n\n{result}"
        elif role == "system" and not place:
            yield role, f"{content}\n\n{FORM}\n\n{listed(tools)}" if tools else content
        else:  # a later word of the system is the user's for servers that take one system message only
            yield "user", content


def _reply(content: str, called: Sequence[tuple[str, str, str]]) -> str:
    """A reply of the model as the object that it is asked for."""
    calls = [{"tool": name, "args": lenient.arguments(given)} for _, name, given in called]
    return to_json(
        {**({"text": content} if content or not calls else {}), **({"calls": calls} if calls else {})}
    )


def _called(value: Any) -> dict[str, Any]:
    """A call, whatever its members are called; empty if it is none."""
    read = lenient.call(value, ("text", "calls"))
    if not isinstance(read, Mapping) or not isinstance(read.get("tool"), str):
        return {}
    args = cast(Mapping[str, Any], read).get("args", {})
    name = cast(str, read["tool"])
    return {"tool": name, "args": args} if isinstance(args, dict) else {"tool": name, "bad": _text(args)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _line(function: Mapping[str, Any]) -> str:
    parameters = function.get("parameters", {})
    needed = parameters.get("required", ())
    arguments = [
        f"{name}{'' if name in needed else '?'}{_kind(given)}"
        for name, given in parameters.get("properties", {}).items()
    ]
    return f"{function['name']}({', '.join(arguments)}): {function.get('description', '')}"


def _kind(given: Any) -> str:
    """The type of an argument, where its schema has a plain one; text is not mentioned."""
    if not isinstance(given, Mapping):
        return ""
    if "enum" in given:
        return f": {' | '.join(map(str, given['enum']))}"
    kind = given.get("type")
    return f": {kind}" if isinstance(kind, str) and kind != "string" else ""
