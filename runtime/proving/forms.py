"""Parses texts by the endings of their names, in a process of its own: a text may cost any time and memory.

It runs as a program. Its input has the limit of CPU seconds for each text, the places of modules, and the
texts. Its output has a line of JSON for each text: null, or the line that is wrong (0: not known) and why. A
text that cannot be told has `UNKNOWN`. It imports nothing of Fractal.
"""

from __future__ import annotations

import json
import re
import sys
from math import ceil
from pathlib import PurePosixPath
from typing import Any

MEMORY = 1_000_000_000
"""Bytes that this process may take."""
UNKNOWN = -1
"""The line of a text that takes too much to be told, such as one that is too deep."""
CLOSED = frozenset({"div", "span", "table", "ul", "ol", "section", "script", "style", "form", "a", "button"})
"""Elements of HTML whose end must not be left out."""


def fault(name: str, text: str) -> tuple[int, str] | None:
    """The line of a text that is wrong, and why; None if it is what its name says, or that says nothing."""
    try:
        _parse(name, text)
    except (RecursionError, MemoryError, ImportError):
        return UNKNOWN, "it is too deep or too large to be parsed"
    except Exception as error:
        return _line(error), _said(error)
    return None


def _parse(name: str, text: str) -> None:
    match PurePosixPath(name).suffix.lower():
        case ".py" | ".pyi":
            import ast
            import warnings

            with warnings.catch_warnings(action="ignore"):
                ast.parse(text)
        case ".json":
            json.loads(text)
        case ".toml":
            import tomllib

            tomllib.loads(text)
        case ".yaml" | ".yml":
            _parse_yaml(text)
        case ".ini" | ".cfg":
            import configparser

            configparser.ConfigParser(interpolation=None).read_string(text)
        case ".csv" | ".tsv":
            import csv
            import io

            rows = csv.reader(io.StringIO(text), delimiter="\t" if name.lower().endswith(".tsv") else ",")
            if len({len(row) for row in rows if row}) != 1:
                raise ValueError("rows of different lengths")
        case ".xml" | ".svg":
            from xml.parsers import expat

            expat.ParserCreate().Parse(re.sub(r"^\s*<\?xml[^>]*\?>", "", text), True)
        case ".html" | ".htm":
            _parse_html(text)
        case _:
            return


def _parse_yaml(text: str) -> None:
    """Any number of documents; tags stay unknown, and nothing is made of them."""
    import yaml

    for _ in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        pass


def _parse_html(text: str) -> None:
    """Lenient, as browsers are: only elements that never end, or end without a beginning, are wrong."""
    from collections import Counter
    from html.parser import HTMLParser

    begun, ended = Counter[str](), Counter[str]()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            begun[tag] += 1

        def handle_endtag(self, tag: str) -> None:
            ended[tag] += 1

    tags = Tags()
    tags.feed(text)
    tags.close()
    for name in sorted(CLOSED):
        if begun[name] != ended[name]:
            raise ValueError(f"<{name}> begins {begun[name]} times and ends {ended[name]} times")


def _line(error: Exception) -> int:
    """The line that an exception of a parser names; 0 if it names none."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    if isinstance(line := getattr(error, "lineno", None), int):
        return line
    return line_in(str(error))


def line_in(said: str) -> int:
    """The line that a message names; 0 if it names none."""
    named = re.search(r"\bline (\d+)", said)
    return int(named[1]) if named else 0


def _said(error: Exception) -> str:
    said = str(getattr(error, "problem", None) or getattr(error, "msg", None) or error)
    return said.splitlines()[0] if said.strip() else type(error).__name__


def main() -> None:
    """Read the texts, and write what is wrong with each as soon as that is known."""
    import resource

    given: dict[str, Any] = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    sys.path += given["path"]
    for name, text in given["texts"]:
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])  # of the user and of the system
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(used) + given["seconds"], resource.RLIM_INFINITY))
        print(json.dumps(fault(name, text)), flush=True)


if __name__ == "__main__":
    main()
