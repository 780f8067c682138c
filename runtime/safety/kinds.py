"""The kind of a call: what a person approves who approves all of the same kind for the rest of a run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from kernel.tools.tool import Tool
from runtime.safety.programs import Program, Table, sort_words

_PLAIN = re.compile(r"[\w@%+=:,./ '\"-]+", re.ASCII)
"""A command without anything that a shell would interpret, beside quotes."""
_WORD = re.compile(r"[a-z][a-z0-9:_-]*")
"""What may be a subcommand."""
_OPERANDS = frozenset(("args", "first", "last", "most", "rest", "script"))
"""Where the table of programs says that they stand for files or code."""
_WRAPPERS = ("env", "xargs", "shell", "find", "fd", "container")
"""How programs read their words that run other programs."""
_BUILTINS = frozenset(
    ("eval", "source", ".", "exec", "trap", "alias", "builtin", "command", "cd", "export", "set")
)
"""Builtins that run other commands, or change what they mean."""


_REACHING = frozenset(("push", "pull", "fetch", "clone", "remote", "submodule", "ls-remote", "archive"))
"""Subcommands of git that reach a repository that their words name, and may run what it says."""


def kind_of(tool: Tool, args: Mapping[str, Any], table: Table) -> str:
    """The kind of a call; "" if it is of none.

    A command is of a kind if it is one program with plain words: no list, pipe, redirection, substitution,
    variable or pattern, no wrapper such as `sudo`, no code and no other machine. The kind is the program with
    its subcommand if the table knows all of its options, or an interpreter with a script of the folder. It is
    the very command otherwise: any other option could run another program. A request is of the kind of its
    host.
    """
    if tool.scheme == "python" and tool.name == "bash":
        words = _command(str(args.get("command", "")), table) if set(args) == {"command"} else ()
        return f"bash: {shlex.join(words)}" if words else ""
    if "url" not in args:
        return tool.name
    with suppress(ValueError):
        if host := urlsplit(str(args["url"])).hostname:
            return f"{tool.name} {host}"
    return ""


def _command(command: str, table: Table) -> Sequence[str]:
    try:
        typed = shlex.split(command) if _PLAIN.fullmatch(command) else []
    except ValueError:  # an open quote
        typed = []
    if not typed:
        return ()
    name, *words = typed
    program = name.rpartition("/")[2]
    spec = table.of(program)
    if not program or "=" in name or program in _BUILTINS or _runs_others(program, words, spec):
        return ()
    if spec.language:
        return _script(name, words, table)
    if not _is_plain(program, words, spec):
        return tuple(typed)
    if any(_OPERANDS & set(stand_for) for stand_for in spec.effects.values()):
        return (name,)
    end = next((at for at, word in enumerate(words[:2]) if not _WORD.fullmatch(word)), 2)
    elsewhere = words[:1] and words[0] in _REACHING and end < 2 <= len(words)
    if spec.how == "make" or elsewhere:
        end = len(words)
    return (name, *words[:end])


def _script(name: str, words: Sequence[str], table: Table) -> Sequence[str]:
    """An interpreter with its script or module, and whatever words that gets if it is known what they do."""
    script = words[: 2 if words[:1] == ["-m"] else 1]
    if not script or script[-1].startswith("-"):
        return ()
    if len(script) == 2:
        known = _is_plain(script[1], words[2:], table.of(script[1]))
    else:
        known = "." in script[0] and not script[0].startswith(("/", "~", ".."))
    return (name, *script) if known else (name, *words)


def _is_plain(program: str, words: Sequence[str], spec: Program) -> bool:
    """Whether the table knows that no option among these words runs a program."""
    line = sort_words(program, words, spec)
    joined = {word for word in line.options if re.fullmatch(r"-\w{2,}.*", word) and not spec.long}
    names = {option.partition("=")[0] for option in line.options if option not in joined}
    return bool(spec.plain) and all(each in spec.plain or re.fullmatch(r"-\d+", each) for each in names)


def _runs_others(program: str, words: Sequence[str], spec: Program) -> bool:
    """Whether a program with these words may run another one, or code, here or elsewhere."""
    line = sort_words(program, words, spec)
    code = {option for options, _ in spec.code for option in options}
    if spec.how in _WRAPPERS or "hosts" in spec.effects or code & {*_OPERANDS, "stdin", *line.names}:
        return True
    if spec.runs and (not spec.verbs or spec.verbs & set(words[:1])):
        return True
    # an option before the subcommand may change what it does
    return bool(spec.verbs or spec.how in ("git", "make")) and "".join(words[:1]).startswith("-")
