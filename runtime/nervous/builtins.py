"""What belongs to the shell itself: `cd`, `source`, `set`, `read`, `export`, `eval`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.nervous import code
from runtime.nervous.lexer import unescaped
from runtime.nervous.programs import Line, Program, Reader, sort_words
from runtime.nervous.values import ANY, NOTHING, UNTOLD, Act, Stream

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell


def _cd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    target = line.operands[0] if line.operands else "~"
    before = shell.cwd
    if line.program == "popd":
        shell.cwd = shell.places.folder
    else:
        shell.cwd = "".join(shell.variables.get("OLDPWD", [ANY])) if target == "-" else shell.path(target)
    shell.variables["OLDPWD"] = [before]
    return NOTHING


def _source(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for each in line.words[:1]:
        if each in ("/dev/stdin", "-"):
            code.fed(shell, "shell", stdin, "source")
        else:
            code.file(shell, "shell", each)
    return UNTOLD


def _alias(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for word in line.operands:
        name, equals, text = word.partition("=")
        if equals:
            shell.aliases[name] = text
            shell.run_text(text)
    return NOTHING


def _hash(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`hash -p FILE NAME` and `enable -f FILE NAME`: another program under a name."""
    if line.has("-p", "-f"):
        shell.note(Act("set", text="PATH", words=(".",), shown=f"{line.program} {' '.join(line.words)}"))
    return NOTHING


def _shopt(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if "dotglob" in line.operands and line.has("-s"):
        shell.variables["dotglob"] = ["on"]
    return NOTHING


def _set(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if re.search(r"^\+o history", " ".join(line.words)):
        return None
    if "--" in line.words:
        shell.positional = tuple(line.words[line.words.index("--") + 1 :])
    elif line.words and line.words[0][:1] not in "-+":
        shell.positional = tuple(line.words)
    return NOTHING if line.words else UNTOLD.tagged("environment")


def _shift(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    count = line.operands[0] if line.operands else "1"
    shell.positional = shell.positional[int(count) if re.fullmatch(r"\d{1,3}", count) else 1 :]
    return NOTHING


def _read(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    line = sort_words(
        "read", line.words, Program(frozenset(["-p", "-n", "-N", "-t", "-d", "-u", "-i", "-a", "-A"]))
    )
    first = None if stdin.text is None else stdin.text.partition("\n")[0]
    array = line.value("-a", "-A")
    names = [array] if array else line.operands or ["REPLY"]
    parts = [stdin.shape] if first is None else first.split(None, -1 if array else len(names) - 1)
    if array:
        shell.assign(array, parts or [""])
        return NOTHING
    for at, each in enumerate(names):
        shell.assign(each, [stdin.shape if first is None else parts[at] if at < len(parts) else ""])
    return NOTHING


def _mapfile(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    name = line.operands[-1] if line.operands else "MAPFILE"
    shell.assign(name, [stdin.shape] if stdin.text is None else stdin.text.splitlines()[:64] or [""])
    return NOTHING


def _printf(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = list(line.words)
    into = words[1] if words[:1] == ["-v"] and len(words) > 2 else ""
    words = words[2:] if into else words[words[:1] == ["--"] :]
    out: list[str] = []
    form, values = (unescaped(words[0]), words[1:]) if words else ("", [])
    parts = re.split(r"%([sbqd%])", form)
    while parts:
        for at, part in enumerate(parts):
            if at % 2:
                out.append("%" if part == "%" else values.pop(0) if values else "")
                out[-1] = unescaped(out[-1]) if part == "b" else out[-1]
            else:
                out.append(part)
        if not values or len(parts) == 1 or len(out) > 500:
            break
    known = not any("%" in part for part in parts[::2])
    if into:
        shell.assign(into, ["".join(out) if known else ANY])
    return NOTHING if into else Stream("".join(out)) if known else UNTOLD


def _echo(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words, flags = list(line.words), ""
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags += words.pop(0)[1:]
    text = " ".join(words)
    return Stream((unescaped(text) if "e" in flags else text) + ("" if "n" in flags else "\n"))


def _export(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for word in line.operands:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"\w+\+?", name):  # after expansion: `export $x=…`
            shell.assign(name.rstrip("+"), [value])
    return UNTOLD.tagged("environment") if not line.operands else NOTHING


def _unset(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for name in line.operands:
        shell.variables.pop(name, None)
        shell.note(Act("set", text=name, tags=frozenset({"unset"}), shown=f"unsets {name}"))
    return NOTHING


def _trap(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    shell.traps += [each for each in line.operands[:1] if each not in ("-", "")]
    return NOTHING


def _eval(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return shell.run_text(" ".join(line.words), stdin, shell.positional) if line.words else NOTHING


BUILTINS: Mapping[str, Reader] = {
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), _export),
    **dict.fromkeys(("mapfile", "readarray"), _mapfile),
    **dict.fromkeys(
        (":", "true", "false", "test", "[", "[[", "wait", "return", "break", "continue"), lambda *_: NOTHING
    ),
    **dict.fromkeys(("hash", "enable"), _hash),
    "shopt": _shopt,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "set": _set,
    "shift": _shift,
    "read": _read,
    "printf": _printf,
    "echo": _echo,
    "unset": _unset,
    "pwd": lambda shell, *_: Stream(shell.cwd + "\n"),
}
