"""A settings file as lines `path = value`, which a small model changes without writing the file anew."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

SUFFIXES = ("json", "yaml", "yml", "toml", "ini", "cfg", "conf", "env")
"""The endings of settings files."""
_SECTION = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*")
_ENTRY = re.compile(r"""^(\s*)(- +)?(["']?)([\w][\w .\-/]*?)\3\s*([:=])(?:\s+|(?=["'\d\[{])|$)(.*)$""")
_TAIL = re.compile(
    r"""^("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\[.*\]|\{.*\}|.*?)(\s*,?\s*(?:(?<=\s)[#;].*)?)$"""
)
_CHANGE = re.compile(r"^[\s`*-]*([\w][\w .\-/\[\]]*?)\s*[=:]\s*(.+?)[\s`]*$")


@dataclass(frozen=True)
class Setting:
    """One value of a settings file."""

    path: str
    value: str
    line: int  # from 0
    start: int  # the column of the value
    tail: str  # what follows the value on its line


def settings(text: str) -> list[Setting]:
    """The values that stand on a line of their own, by indentation and section; lists inside are left out."""
    found: list[Setting] = []
    section = ""
    above: list[tuple[int, str]] = []  # indentation and key of the entries around
    for number, line in enumerate(text.splitlines()):
        if (header := _SECTION.fullmatch(line)) and "=" not in line and ":" not in line:
            section, above = header[1], []
            continue
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        indent = len(entry[1]) + len(entry[2] or "")
        above = [each for each in above if each[0] < (len(entry[1]) if entry[2] else indent)]
        key = entry[4]
        tail = _TAIL.match(entry[6])
        value, rest = (tail[1], tail[2]) if tail else (entry[6], "")
        if value in ("", "{", "[", "|", ">"):
            above.append((indent, key))
            continue
        if entry[2]:  # an item of a list is named by its first value
            above.append((len(entry[1]), value.strip("\"'")))
        path = ".".join([*([section] if section else []), *(name for _, name in above), key])
        found.append(Setting(path, value, number, entry.start(6), rest))
    return found


def view(listed: Sequence[Setting]) -> str:
    """The settings as lines."""
    return "\n".join(f"{each.path} = {each.value}" for each in listed)


def changed(text: str, listed: Sequence[Setting], reply: str, suffix: str) -> str:
    """The text with the values that a reply states; unchanged where it states none that exist."""
    by_path = {each.path.casefold(): each for each in listed}
    last: dict[str, list[Setting]] = {}
    for each in listed:
        last.setdefault(each.path.rpartition(".")[2].casefold(), []).append(each)
    lines = text.splitlines(keepends=True)
    for line in reply.splitlines():
        stated = _CHANGE.match(line)
        if stated is None:
            continue
        path = stated[1].casefold()
        same_key = last.get(path, [])
        setting = by_path.get(path) or (same_key[0] if len(same_key) == 1 else None)
        if setting is None:
            continue
        ending = lines[setting.line][len(lines[setting.line].rstrip("\r\n")) :]
        value = _written(stated[2], setting.value, suffix)
        lines[setting.line] = f"{lines[setting.line][: setting.start]}{value}{setting.tail}{ending}"
    return "".join(lines)


def _written(new: str, old: str, suffix: str) -> str:
    """A new value, quoted like the old one."""
    new = new.rstrip(",").strip()
    bare = new.strip("\"'")
    if old[:1] in "\"'" and old[:1]:
        return f"{old[0]}{bare}{old[0]}"
    if suffix == "json":
        try:
            json.loads(new)
            return new
        except ValueError:
            return json.dumps(bare, ensure_ascii=False)
    return bare
