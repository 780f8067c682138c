"""One field of a markdown file's frontmatter set, and not a character changed beside it."""

from __future__ import annotations

import json
import re

from kernel.errors import FractalError

_BLOCK = re.compile(r"(?ms)\A(?:\ufeff)?---[ \t]*\r?\n(?P<fields>.*?)^---[ \t]*\r?$")


def with_field(text: str, name: str, value: str) -> str:
    """The text with `name: value` in its frontmatter. Raises `FractalError` where there is none."""
    block = _BLOCK.match(text)
    if not block:
        raise FractalError("there is no frontmatter between two lines of ---; begin the file with one")
    plain = value if re.fullmatch(r"[a-z][a-z0-9-]*", value) else json.dumps(value, ensure_ascii=False)
    newline = "\r\n" if "\r\n" in block[0] else "\n"
    line = f"{name}: {plain}"
    fields = block["fields"]
    own = re.compile(rf"^{re.escape(name)}[ \t]*:[^\r\n]*", re.MULTILINE)
    there = own.search(fields)
    fields = own.sub(lambda _: line, fields, count=1) if there else f"{fields}{line}{newline}"
    start, end = block.span("fields")
    return text[:start] + fields + text[end:]
