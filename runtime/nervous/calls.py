"""What the call of any tool would do, by its name, its effects and its arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernel.screening import redactor
from kernel.tools import Tool
from runtime.nervous import sql
from runtime.nervous.running import run
from runtime.nervous.shell import Shell
from runtime.nervous.values import UNTOLD, Act, Stream, plain

COMMANDS = re.compile(
    r"(?i)^(?:command|cmd|shell|script|bash|commandline|command_line|shell_command|exec|run|powershell)s?$"
)
CODES = re.compile(r"(?i)^(?:code|source_code|python|python_code|snippet|program)$")
PATHS = re.compile(
    r"(?i)(?:^|_)(?:paths?|files?|folder|dir|directory|filename|file_?path|from|to|source|target|destination|dest|output|input|"
    r"root|repo|repo_path|location|uri|old_?path|new_?path)$"
)
TARGETS = re.compile(
    r"(?i)^(?:to|target|dest|destination|output|out|output_?(?:path|file)|new_?path|save_?(?:to|as)|.*_to)$"
)
QUERIES = re.compile(r"(?i)^(?:query|sql|statement|statements|queries|q)$")
CONTENTS = re.compile(
    r"(?i)^(?:content|contents|text|body|new|old|data|diff|message|value|new_?str|old_?str|what|prompt|comment|description)$"
)
REMOVES = re.compile(r"(?:^|-)(?:remove|delete|rm|unlink|trash|rmdir|purge|erase)(?:-|$)")
MOVES = re.compile(r"(?:^|-)(?:move|rename|mv)(?:-|$)")
READS = re.compile(
    r"(?:^|-)(?:read|get|list|ls|search|find|grep|stat|show|view|describe|info|fetch|count|cat|head|tail|query|check|diff|tree)(?:-|$)"
)
_ADDRESS = re.compile(r"(?i)^(?:https?|wss?|ftp|gopher|file)://")
_PATH = re.compile(r"(?:/|~/|\.\./|~$|\.\.$|/$|file://)[^\s\0]*$")
MOST = 400
"""Texts among the arguments of one call that are looked at."""


def looked_at(
    tool: Tool, args: Mapping[str, Any], shell: Shell, environ: Mapping[str, str] | None = None
) -> None:
    """Note what a call would do."""
    if tool.scheme == "python" and tool.name == "bash":
        stdin = args.get("stdin")
        shell.line(str(args.get("command", "")), Stream(plain(stdin)) if isinstance(stdin, str) else UNTOLD)
        return
    removes, reads = bool(REMOVES.search(tool.name)), _only_reads(tool)
    tags = (
        {*tool.effects, tool.scheme}
        | ({"reads"} if reads else set())
        | ({"destructive"} if tool.destructive else set())
    )
    words = tuple(text for _, text in _texts(args) if len(text) < 200)[:20]
    does = "read" if reads else "delete" if removes else "write"
    for number, (name, text) in enumerate(_texts(args)):
        if number >= MOST:
            break
        _argument(tool, args, shell, name, plain(text), does)
    changed = [act.places for act in shell.found.acts if act.does in ("write", "delete", "read")]
    if changed and all("inside" in places for places in changed):
        tags |= {"local"}  # it names files of the folder, and no others
    shell.note(Act("call", tool.name, words, tags=frozenset(tags), shown=f"calls {tool.name}"))
    _handed_over(tool, args, shell, redactor(os.environ if environ is None else environ))


def _only_reads(tool: Tool) -> bool:
    effects = set(tool.effects)
    return not effects & {"write", "shell"} and tool.scheme != "command"


def _texts(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text among the arguments, with the name that it stands under."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping) and depth < 6:
        for key, each in value.items():
            yield from _texts(each, str(key), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 6:
        if COMMANDS.match(name) and not name.endswith("s") and all(isinstance(each, str) for each in value):
            yield name, " ".join(_quoted(each) for each in value)
        else:
            for each in value:
                yield from _texts(each, name, depth + 1)


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def _argument(tool: Tool, args: Mapping[str, Any], shell: Shell, name: str, text: str, does: str) -> None:
    shipped = tool.scheme == "python"
    if COMMANDS.match(name) and not shipped:
        shell.line(text)
        more = args.get("args") or args.get("arguments")
        if isinstance(more, list) and re.fullmatch(r"[\w./-]+", text):
            run(shell, [text, *(plain(str(each)) for each in more)], UNTOLD)
    elif CODES.match(name) and not shipped:
        from runtime.nervous.scripts import body

        body(shell, "python", text) if re.search(
            r"(?m)^\s*(?:import|from|print|def)\b|\(", text
        ) else shell.line(text)
    elif _ADDRESS.match(text):
        shell.connect(text, program=tool.name)
        if text.lower().startswith("file:"):
            shell.read(text, program=tool.name)
        method = args.get("method")
        if isinstance(method, str):
            shell.note(Act("request", tool.name, text=method.upper(), shown=f"{method.upper()} {text}"))
    elif QUERIES.match(name) or (sql.looks_like(text) and not CONTENTS.match(name) and not shipped):
        for told, tags in sql.statements(text):
            shell.note(Act("sql", tool.name, text=told, tags=tags, shown=f"SQL: {told}"))
    elif PATHS.search(name) or (_PATH.match(text) and not CONTENTS.match(name) and not _is_pattern(name)):
        _path(tool, args, shell, name, text, does)
    if tool.name == "patch" and name == "diff":
        for hit in re.finditer(r"(?m)^\+\+\+ (?:b/)?([^\t\n]+)", text):
            shell.touch("write", hit[1].strip(), "changes", program=tool.name)


def _is_pattern(name: str) -> bool:
    return name in ("pattern", "glob", "regex", "query", "expression", "format")


def _path(tool: Tool, args: Mapping[str, Any], shell: Shell, name: str, text: str, does: str) -> None:
    if not text or len(text) > 4_000 or "\n" in text:
        return
    whole = shell.path(text)
    ships = tool.scheme == "python"
    if shell.places.drafted(whole) and (ships or not whole.endswith("/dangers.md")):
        return  # a change of the system is a draft, and the kernel admits it by its sample
    if ships and "protected" in shell.places.sort(whole):
        return  # the operation itself refuses, whoever approves
    other = any(TARGETS.match(each) for each in (*tool.args, *args) if each != name)
    if TARGETS.match(name):
        shell.touch("read" if does == "read" else "write", text, "writes", program=tool.name)
    elif does == "delete":
        shell.touch("delete", text, "removes", "recursive", program=tool.name)
    elif MOVES.search(tool.name) and does != "read":
        shell.touch("delete", text, "moves away", "moved", program=tool.name)
    elif does == "read" or other or tool.name == "patch" or READS.search(tool.name) or not PATHS.search(name):
        shell.read(text, program=tool.name)
    else:
        shell.touch("write", text, "writes", program=tool.name)


def _handed_over(tool: Tool, args: Mapping[str, Any], shell: Shell, redact: Callable[[str], str]) -> None:
    """Keys and tokens in what goes out to the network, or to somebody else's program."""
    if "network" not in tool.effects and tool.scheme not in ("mcp", "command"):
        return
    for _, text in _texts(args):
        if redact(text) != text:
            shown = f"{tool.name} is handed what looks like a key or a password"
            shell.note(Act("secret-text", tool.name, shown=shown))
            return
