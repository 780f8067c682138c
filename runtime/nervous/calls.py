"""What a call of a tool does, as danger rules see it: lines of shell, files, statements, addresses."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kernel.tools import Tool
from runtime.nervous.reading import Access, Call, Reading
from runtime.nervous.unwrapping import read

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_COMMANDS = {"command", "commands", "cmd", "cmds", "commandline", "shell", "bash", "script", "code"}
_PATHS = {"path", "paths", "file", "files", "filename", "filepath", "folder", "directory", "dir", "source"}
_PATHS |= {"destination", "dest", "target", "to", "from", "uri"}
_FROM = frozenset(["from", "source"])
_STATEMENTS = frozenset(["sql", "statement", "statements"])
_ASKED = frozenset(["query", "queries"])
_SQL = re.compile(
    r"\s*(?:--.*\n\s*|/\*.*?\*/\s*)*(?:drop|delete|truncate|update|alter|insert|create|with|select|replace|begin)\b",
    re.I,
)
_DELETES = re.compile(
    r"(?:^|[-_])(?:delete|remove|destroy|drop|purge|wipe|erase|truncate|unlink|rm)(?:[-_]|$)"
)


@dataclass(frozen=True)
class Line:
    """A line of shell that a call will run, and what it is fed."""

    text: str
    stdin: str = ""


def lines_of(tool: Tool, args: Mapping[str, Any]) -> list[Line]:
    """The lines of shell that a call runs; none for a tool that runs no commands."""
    if "shell" not in tool.effects and tool.scheme in ("python", ""):
        return []
    stdin = str(args.get("stdin") or "")
    return [Line(text, stdin) for text in _commands(args)]


def touched(tool: Tool, args: Mapping[str, Any], folder: str) -> tuple[Reading, str]:
    """The files, statements and addresses that a call names, and the text in which rules may search."""
    seen = Reading()
    foreign = tool.scheme not in ("python", "")
    deletes = bool(_DELETES.search(tool.name))
    for name, value in _flat(args):
        words = _named(name)
        last = words[-1:]
        if "://" in value:
            seen.addresses.append(value)
            value = value.removeprefix("file://")
        if _STATEMENTS & {*last} or (_ASKED & {*last} and _SQL.match(value)):
            seen.calls.append(Call(("sqlite3", value), folder))
        elif _PATHS & {*last} and "://" not in value:
            writes = "write" in tool.effects and not _FROM & {*last}
            seen.files.append(Access(value, folder, writes=writes))
            if deletes:
                seen.calls.append(Call(("rm", "-r", value), folder))
    if foreign:
        seen.calls.append(Call((f"tool:{tool.name}", *(value for _, value in _flat(args))), folder))
    return seen, "\n".join(seen.addresses)


def read_line(line: Line, folder: str, *, shell: bool) -> Reading:
    """What a line does; of a tool that need not mean a shell, it may be Python."""
    if not shell and _is_python(line.text):
        return read(shlex.join(["python3", "-c", line.text]), folder, line.stdin)
    return read(line.text, folder, line.stdin)


def _is_python(text: str) -> bool:
    """Whether a text is Python, and no single word, which is a program as well."""
    if not re.search(r"\w\(|^\s*(?:import|from)\s", text):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _commands(value: Any, name: str = "") -> Iterator[str]:
    """The values of arguments that are named as commands are, with the words of an `args` beside them."""
    if isinstance(value, str):
        if _is_command(name):
            yield value
    elif isinstance(value, Mapping):
        given = cast(Mapping[str, Any], value)
        for key, each in given.items():
            more = _strings(given.get("args") or given.get("arguments") or given.get("argv"))
            if isinstance(each, str) and more and _is_command(str(key)):
                yield f"{each} {shlex.join(more)}"
            else:
                yield from _commands(each, str(key))
    elif isinstance(value, list | tuple):
        words = _strings(cast(Sequence[Any], value))
        if words and _is_command(name):
            yield shlex.join(words)
            yield from (word for word in words if " " in word)  # or each is a line of its own
        else:
            for each in cast(Sequence[Any], value):
                yield from _commands(each, name)


def _strings(value: Any) -> list[str]:
    """A list of texts alone; empty for anything else."""
    if not isinstance(value, list | tuple):
        return []
    words = cast(Sequence[Any], value)
    return [str(word) for word in words] if all(isinstance(word, str) for word in words) else []


def _named(name: str) -> list[str]:
    """The words in a name: `oldFilePath` is old, file, path."""
    return [word.lower() for word in _WORDS.split(name) if word]


def _is_command(name: str) -> bool:
    words = _named(name)
    return bool(_COMMANDS & {*words[-1:], "".join(words[-2:])})


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts in arguments, however deep, with the names that they have."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in cast(Mapping[str, Any], value).items():
            yield from _flat(each, str(key))
    elif isinstance(value, list | tuple):
        for each in cast(Sequence[Any], value):
            yield from _flat(each, name)
