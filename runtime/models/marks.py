"""The calls in a text that a model wrote with the marks of its training, and that its server left there.

Known are the forms of Hermes and Qwen, Llama, Mistral, DeepSeek, Kimi, GLM, MiniMax, Granite, Phi, Cohere,
InternLM and Gemma. A mark in a code span or block is text about a call, and no call.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from kernel.asking import lenient
from kernel.document.escaping import to_json

LONGEST_PYTHON = 50_000
"""Characters of a call in Python's form that are read."""
MOST_MARKS = 64
"""Marks of one text that are read."""
LONGEST_GAP = 200
"""Characters before an object in which it is looked for what it is a part of."""
SHOWN = 500
"""Characters of a call that cannot be read that its error shows."""
_SEP = r"<[｜|]tool[▁_]sep[｜|]>"
_OPENER = re.compile(
    r"<(?:\w+:|｜DSML｜)?(?:function|invoke)(?:=|\s+name=)[\"']?(?P<name>[^\s\"'<>={]{1,80})[\"']?\s*(?:>|(?=\{))"
    r"|<(?:\w+:|｜DSML｜)?(?:tool_calls?|function_calls?|functioncall|TOOLCALL|start_function_call)>"
    r"|<\|tool_calls?\|?>|<\|plugin\|>|<\|START_ACTION\|>|<\|python_tag\|>|\[TOOL_CALLS\]|\bfunctools(?=\[)"
    r"|<[｜|]tool[▁_]calls?(?:_section)?[▁_]begin[｜|]>|```tool_(?:code|call)\b|\A\s*(?=\[)"
    r"|(?m:^) {0,3}(?=\{\{?\s*\"name\"\s*:\s*\"[^\"\n]{1,80}\"\s*,\s*\"(?:arguments|parameters)\"\s*:)",
)
_NAMED = re.compile(
    rf"(?:function\s*{_SEP})?\s*(?:call:)?(?P<name>[A-Za-z_][\w.:/-]{{0,79}})\s*"
    rf"(?:(?:{_SEP}|<\|tool_call_argument_begin\|>|\[CALL_ID\]\s*\w*|\[ARGS\]|```\w*)\s*)*(?=(?P<next>[{{<(]))"
)
_FENCE = re.compile(r"\s*(?:```\w*\s*)?")
_BLANK = re.compile(r"\s*")
_INSIDE = re.compile(r'(?:[\[{]|"\s*:|[\]}"]\s*,)\s*\Z')
"""What stands before an object that is a part of a larger one, or of a list."""
_PARAMETER = re.compile(
    r"<(?:\w+:|｜DSML｜)?parameter(?:=|\s+name=)[\"']?(?P<name>[^\s\"'<>]{1,80})[\"']?(?P<more>[^<>]*)>"
)
_PARAMETER_ENDS = re.compile(r"</(?:\w+:|｜DSML｜)?parameter>|(?=</(?:\w+:|｜DSML｜)?(?:function|invoke)>)")
_CALL_ENDS = re.compile(r"</(?:\w+:|｜DSML｜)?(?:function|invoke)>")
_ARGUMENT = re.compile(r"\s*<arg_key>([^<]{1,80})</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_TAIL = re.compile(r"(?:[\s;,\]]|</?[^<>\s]{1,40}>|\[/?[A-Z_]+\]|```)*")


class Call(NamedTuple):
    """A call: its name, and its arguments as JSON text, or the text that is none."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Marked:
    """What stands in a text with marks."""

    calls: tuple[Call, ...]
    before: str  # what the model says before them
    ends: bool  # whether nothing else follows them
    opened: bool  # whether a line begins with a mark
    marked: bool  # whether they have a mark, and do not stand alone


def calls_in(text: str) -> Marked | None:
    """The calls that are marked in a text; None if it has no mark."""
    calls: list[Call] = []
    first, end, opened, marked = -1, 0, False, False
    for _ in range(MOST_MARKS):
        if not (mark := _OPENER.search(text, end)):
            break
        end = max(mark.end(), end + 1)
        if _quoted(text, mark.start(), mark[0]):
            continue
        bare = not mark[0].strip()  # a list or an object alone is a mark only if it has calls
        if bare and _INSIDE.search(text, max(0, mark.start() - LONGEST_GAP), mark.start()):
            continue
        found, after = _read(text, mark)
        if bare and not found:
            continue
        if first < 0:
            first = mark.start()
            line = text[text.rfind("\n", 0, first) + 1 : first]
            opened = not line.strip() and not bare
        calls += found
        marked = marked or not bare
        end = max(after, end)
    if first < 0:
        return None
    ends = _TAIL.fullmatch(text, end) is not None
    return Marked(tuple(calls), text[:first].strip(), ends, opened, marked)


def _quoted(text: str, at: int, mark: str) -> bool:
    if text[max(0, at - 1) : at] == "`" and not mark.startswith("```"):
        return True
    return text.count("```", 0, at) % 2 == 1


def _read(text: str, mark: re.Match[str]) -> tuple[list[Call], int]:
    """The calls that follow a mark, and where they end."""
    at = mark.end()
    if mark["name"]:
        return _with_parameters(text, mark["name"], at)
    start = _end(_FENCE.match(text, at), at)
    if text[start : start + 1] in ("{", "["):
        calls, end = _objects(text, start)
        if calls or text[start] == "{":
            return calls, end
    elif named := _NAMED.match(text, at):
        return _named(text, named)
    return _python(text, start)


def _named(text: str, named: re.Match[str]) -> tuple[list[Call], int]:
    """A call whose name stands before its arguments."""
    name, at = named["name"], named.end()
    if named["next"] == "{":
        value, end = _value(text, at)
        return [Call(name, value)], end
    if named["next"] == "(":
        return _python(text, named.start("name"))
    given: dict[str, Any] = {}
    while part := _ARGUMENT.match(text, at):
        given[part[1].strip()] = _plain(part[2])
        at = part.end()
    return ([Call(name, to_json(given))], at) if given else ([], at)


def _objects(text: str, at: int) -> tuple[list[Call], int]:
    """The calls of an object or a list, and of those that follow it directly."""
    calls: list[Call] = []
    while text[at : at + 1] in ("{", "["):
        twice = text.startswith("{{", at)  # so the template of Qwen2.5 shows an object
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text, at + twice)
        except (ValueError, RecursionError):
            break
        end += twice and text.startswith("}", end)
        found = [_call(each) for each in (cast(list[Any], value) if isinstance(value, list) else [value])]
        if not all(found):
            break
        calls += [each for each in found if each]
        rest = re.compile(r"[\s;,]*").match(text, end)
        at = _end(rest, end)
    return calls, at


def _call(value: Any) -> Call | None:
    read = lenient.call(value, ("text", "calls"))
    if not isinstance(read, Mapping):
        return None
    name, args = (cast(Mapping[str, Any], read).get(key) for key in ("tool", "args"))
    if not isinstance(name, str) or not name:
        return None
    return Call(name, args if isinstance(args, str) else to_json({} if args is None else args))


def _with_parameters(text: str, name: str, at: int) -> tuple[list[Call], int]:
    """A call with an element for each argument, or with one object."""
    start = _end(_FENCE.match(text, at), at)
    if text[start : start + 1] == "{":
        value, end = _value(text, start)
        return [Call(name, value)], end
    given: dict[str, Any] = {}
    while part := _PARAMETER.match(text, _end(_BLANK.match(text, at), at)):
        end = _PARAMETER_ENDS.search(text, part.end())
        said = text[part.end() : end.start() if end else len(text)]
        given[part["name"]] = said if 'string="true"' in part["more"] else _plain(said)
        at = end.end() if end else len(text)
    closed = _CALL_ENDS.match(text, _end(_BLANK.match(text, at), at))
    return [Call(name, to_json(given))], _end(closed, at)


def _plain(said: str) -> Any:
    """The value of an argument in words: one line feed on each side is no part of it.

    Only a list or an object is read: a number may be meant as text, and the tool's schema decides that.
    """
    said = said.removeprefix("\n").removesuffix("\n")
    if said.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(said)
    return said


def _value(text: str, at: int) -> tuple[str, int]:
    """The object that begins here as text, and where it ends; all that follows if it is none."""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        return text[at : at + SHOWN], len(text)
    return text[at:end], end


def _python(text: str, at: int) -> tuple[list[Call], int]:
    """Calls in Python's form, such as `[read(path="a.txt")]`, which end the text or the line."""
    for end in (len(text), text.find("```", at), text.find("<|", at), text.find("\n", at)):
        if end < at or end - at > LONGEST_PYTHON:
            continue
        try:
            with warnings.catch_warnings(action="ignore"):  # of escapes in its texts
                said = ast.parse(text[at:end].strip(), mode="eval").body
            each = said.elts if isinstance(said, ast.List | ast.Tuple) else [said]
            return [_python_call(one) for one in each], end
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            continue
    return [], at


def _python_call(said: ast.expr) -> Call:
    if isinstance(said, ast.Call) and not said.args:
        name = ast.unparse(said.func).removesuffix(".call")
        given = {each.arg: ast.literal_eval(each.value) for each in said.keywords if each.arg}
        return Call(name.removeprefix("print("), to_json(given))
    if isinstance(said, ast.Call) and ast.unparse(said.func) == "print" and len(said.args) == 1:
        return _python_call(said.args[0])
    raise ValueError("it is no call")


def _end(found: re.Match[str] | None, otherwise: int) -> int:
    return found.end() if found else otherwise
