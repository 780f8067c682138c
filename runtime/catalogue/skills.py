"""Reads a SKILL.md tolerantly: missing or malformed fields are replaced where possible.

The specification wants a name (a-z, 0-9 and -, at most 64, as its folder's) and a description (at most 1,024
characters) between `---` lines. Other keys are accepted and grant nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, cast

from runtime import pinned

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LARGEST = 4_000_000
"""Bytes of a SKILL.md that is read."""
MOST_VALUES = 20_000
"""Values of a tool's frontmatter; YAML can name a few hundred so that they would fill the memory."""
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)$")
_FENCE = re.compile(r"---[ \t]*$")


class Unusable(ValueError):
    """What keeps a skill from being read, at a line."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Skill:
    """The content of a SKILL.md, and its deviations from the specification."""

    name: str
    description: str
    body: str
    departures: tuple[str, ...] = ()


def few_values(data: Any) -> None:
    """Raise `ValueError` for data that aliases make larger than it looks, before it is copied or printed."""
    pending, count = [data], 0
    while pending:
        value = pending.pop()
        count += 1
        if count > MOST_VALUES:
            raise ValueError(f"the frontmatter holds more than {MOST_VALUES} values")
        if isinstance(value, dict):
            pending += [*cast(dict[Any, Any], value), *cast(dict[Any, Any], value).values()]
        elif isinstance(value, list | tuple | set):
            pending += cast(list[Any], value)


def read_skill(path: Path) -> Skill:
    """Read a skill. Raises `Unusable` with the line and the fix, `ConfigurationError` or `OSError`."""
    if (size := path.stat().st_size) > LARGEST:
        raise Unusable(f"{size:,} bytes are too many; move most of it into files of references/")
    head, body, first = _split(_decoded(pinned.read(path)))
    notes: list[str] = []
    meta = _meta(head, notes)
    name = _name(path.parent.name, meta, head, notes)
    description = meta.get("description")
    if isinstance(description, list):
        description = " ".join(str(each) for each in cast(list[Any], description))
    text = _line(str(description)) if description is not None and not isinstance(description, dict) else ""
    if not text:
        text = _opening(body)
        if not text:
            raise Unusable("it says nothing: write name and description between --- lines, then what to do")
        notes.append("line 1: description is missing; the beginning of the text stands for it")
    elif len(text) > LONGEST_DESCRIPTION:
        notes.append(f"line 1: the description has {len(text):,} characters, {LONGEST_DESCRIPTION:,} may be")
    if not body.strip():
        notes.append(f"line {first}: there is no text that says what to do")
    return Skill(name, text, body.strip(), tuple(notes))


def _decoded(raw: bytes) -> str:
    wide = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Unusable("this is not UTF-8 text; save the file as UTF-8", line) from None
    if "\0" in text:
        raise Unusable("this is no text; write it as UTF-8", text[: text.index("\0")].count("\n") + 1)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split(text: str) -> tuple[list[str], str, int]:
    """The lines of the frontmatter, the body, and the line at which the body begins."""
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines) if line.strip()), 0)
    if not _FENCE.match(lines[start]):
        return [], text, 1
    for at in range(start + 1, len(lines)):
        if _FENCE.match(lines[at]):
            return [""] * start + lines[start + 1 : at], "\n".join(lines[at + 1 :]), at + 2
    end = next((at for at in range(start + 1, len(lines)) if not lines[at].strip()), len(lines))
    return [""] * start + lines[start + 1 : end], "\n".join(lines[end:]), end + 1  # it was never closed


def _meta(head: list[str], notes: list[str]) -> Mapping[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value: Any = yaml.load("\n".join(head), loader)
        few_values(value)
        if isinstance(value, dict):
            read, written = cast(dict[str, Any], value), _by_lines(head)
            # YAML reads `yes` and `2026-01-01` as something else: what is written is what is meant
            plain = {
                key: each for key, each in written.items() if isinstance(read.get(key), bool | int | date)
            }
            return {**read, **plain}
        if head and value is not None:
            notes.append("line 1: the frontmatter is no mapping of names to values")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        notes.append(f"line {line}: the frontmatter is not YAML; put values with a colon in quotes")
    return _by_lines(head)


def _by_lines(head: list[str]) -> Mapping[str, Any]:
    """The values of a frontmatter that is not YAML: most have a colon in a description without quotes."""
    fields: dict[str, str] = {}
    name = ""
    for line in head:
        if hit := _KEY.match(line):
            name = hit[1]
            value = (hit[2] or "").strip()
            fields.setdefault(name, "" if re.fullmatch(r"[>|][+-]?", value) else _unquoted(value))
        elif name and line.startswith((" ", "\t")):
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    return fields


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _name(folder: str, meta: Mapping[str, Any], head: list[str], notes: list[str]) -> str:
    value = meta.get("name")
    line = next((at for at, text in enumerate(head, 2) if text.startswith("name")), 1)
    if value is None or value == "":
        notes.append(f"line {line}: name is missing; it is called after its folder")
        value = folder
    value = str(value)
    name = _as_name(value) or _as_name(folder)
    if not name:
        raise Unusable(f"name: {value!r} has none of a-z and 0-9; give it a name of a-z, 0-9 and -", line)
    if name != value:
        notes.append(f"line {line}: name: {value!r} is read as {name!r}: a-z, 0-9 and -, at most 64 of them")
    elif name != folder:
        notes.append(f"line {line}: name: {name!r} is not that of its folder, {folder!r}")
    return name


def _as_name(text: str) -> str:
    """A text as a name: what is no letter or digit becomes a hyphen."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall(r"[a-z0-9]+", plain))[:LONGEST_NAME].rstrip("-")


def _opening(body: str) -> str:
    """The first paragraph of a text, else its first heading."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", body) if part.strip()]
    plain = [part for part in paragraphs if not part.startswith(("#", "```", "---", "|", "<!--"))]
    chosen = plain[0] if plain else paragraphs[0].lstrip("# ") if paragraphs else ""
    return _line(chosen)


def _line(text: str) -> str:
    """Text on one line, without characters that move a terminal's cursor."""
    visible = "".join(each if unicodedata.category(each)[0] != "C" or each.isspace() else "" for each in text)
    return " ".join(visible.split())
