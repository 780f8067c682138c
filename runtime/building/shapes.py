"""The shape of a command: its programs, their options, how they are joined, without what they are given.

`grep -c "x" a.txt | sort -n` and `grep -c y *.md | sort -n` have one shape. A shape is improvised where
several programs are joined, or one is written on the spot; `ls` and `pytest -q` are simply used.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""'[^']*' | "(?:\\.|[^"\\])*" | \$\( | \$\{[^}]*\} | \|\| | && | ;; | [|;&()\n]
    | [<>]+&?\d* | [^\s|;&()<>'"]+""",
    re.X,
)
JOINS = frozenset({"|", "||", "&&", ";", ";;", "&", "\n", "$(", "(", ")"})


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


WORDS = _set("if then else elif fi for in do done while until case esac ! { } time")
PREPARING = _set("cd set export echo printf true false : mkdir source . test [ exit wait sleep")
"""Programs that do no work of their own in a line that others work in."""
SHOWING = _set("ls cat head tail pwd wc which file less stat")
WRITING = _set("awk gawk mawk perl ruby node python python3")
"""Programs that are given a program: its words belong to the shape."""
SUBCOMMANDS = _set("git npm docker cargo pip go kubectl make apt systemctl gh uv")
LONGEST = 300
_STRINGS = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
PROGRAM_WORDS = 12
LEAST_WORDS = 3
"""A program of fewer words is not worth a tool."""


def shape(command: str) -> str:
    """The shape of a command; "" for one that is simply used."""
    line, here, rest = command.partition("<<")
    parts: list[str] = []
    programs: list[str] = []
    words: list[str] = []
    first, previous = True, ""
    for token in _TOKEN.findall(line):
        if token in JOINS:
            first, previous = True, ""
            if parts and parts[-1] not in ("|", ";"):
                parts.append("|" if token == "|" else ";")
        elif token in WORDS:
            parts.append(token)
            first = token not in ("for", "in", "case")
        elif first and not re.fullmatch(r"\w+=.*", token, re.S):
            first, previous = False, token.strip("'\"").rpartition("/")[2]
            if previous not in PREPARING:
                programs.append(previous)
                parts.append(previous)
        elif previous in WRITING and token[0] in "'\"":
            words += _words(token[1:-1])
        elif token.startswith("-") and previous and previous not in PREPARING:
            option = re.sub(r"[=\d,].*", "", token)
            parts += [option] if len(option) > 1 else []
        elif previous in SUBCOMMANDS and re.fullmatch(r"[a-z][a-z-]*", token) and parts[-1] == previous:
            parts.append(token)
    if here:
        words += _words(rest.partition("\n")[2])
    working = [name for name in programs if name not in SHOWING]
    if len(words) < LEAST_WORDS and not (len(programs) > 1 and working):
        return ""
    while parts and parts[-1] in ("|", ";"):
        parts.pop()
    whole = " ".join(parts)
    told = f" ({' '.join(dict.fromkeys(words[:PROGRAM_WORDS]))})" if words else ""
    return f"{whole}{told}"[:LONGEST]


def _words(program: str) -> list[str]:
    """The words of a program, without its texts and numbers."""
    return re.findall(r"[A-Za-z_]{3,}", _STRINGS.sub(" ", program))
