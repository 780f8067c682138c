"""SQL: the statements that destroy or open something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.safety.acts import Act

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

_COMMENT = re.compile(r"(--[^\n]*|#[^\n]*)|/\*")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_LOOSE_WHERE = (
    r"\(?\s*(?:1|true|1\s*=\s*1|'?a'?\s*=\s*'?a'?|not\s+false|id\s+is\s+not\s+null|rowid\s*>\s*0)\s*\)?\s*$"
)
_SQL = tuple(
    (tag, re.compile(f"(?is){form}"))
    for tag, form in (
        (
            "drops",
            r"^\s*(?:drop\s+(?:table|database|schema|view|index|column|user|role|keyspace|collection)|alter\s+table\s.*\bdrop\b)",
        ),
        ("drops", r"\.(?:dropDatabase|drop|dropCollection)\s*\(|\b(?:flushall|flushdb)\b"),
        ("empties", r"^\s*truncate\b"),
        ("deletes", rf"^\s*(?:with\b.*)?delete\s+from\b(?:(?!.*\bwhere\b)|.*\bwhere\s+{_LOOSE_WHERE})"),
        ("deletes", r"\.(?:deleteMany|remove)\s*\(\s*(?:\{\s*\})?\s*\)"),
        ("updates", r"^\s*(?:with\b.*)?update\b.*\bset\b(?!.*\bwhere\b)"),
        ("grants", r"^\s*(?:grant|revoke|alter\s+(?:user|role)|create\s+(?:user|role))\b"),
        (
            "runs",
            r"\bcopy\b(?:(?!\bcopy\b).)*?\b(?:to|from)\s+program\b|\bxp_cmdshell\b|\bload_extension\s*\(|\binto\s+(?:out|dump)file\b"
            r"|\bsys_exec\s*\(|\bpg_read_file\s*\(|^\s*\\!|^\s*system\s",
        ),
    )
)
"""What a statement destroys or opens, by its form."""


def statements(shell: Shell, program: str, text: str, base: Sequence[str] = ()) -> None:
    """Note the statements of SQL that destroy or open something, and the commands that a client runs."""
    for hit in re.finditer(r"(?m)^[^\S\n]*(?:\.(?:shell|system)|\\!|!)\s*(.+)", text):
        shell.run_text(hit[1])
    if base and base[0].endswith(":memory:"):
        return
    local = {"local"} if base and "inside" in shell.places.sort(base[0]) else set[str]()
    if len(text) > 100_000:
        text = "drop table"  # too long to be looked through
    masked = _QUOTED.sub(lambda hit: hit[0].replace(";", ",").replace("--", "  ").replace("/*", "  "), text)
    for statement in _without_comments(masked).split(";"):
        searched = statement if "where" in statement.lower() else _QUOTED.sub("''", statement)
        tags = frozenset(tag for tag, form in _SQL if form.search(searched))
        if tags:
            shown = " ".join(statement.split())[:120]
            shell.note(Act("sql", program, text=shown, tags=tags | local, shown=f"SQL: {shown}"))


def _without_comments(text: str) -> str:
    """A text without its comments. One that is never closed is none, so that nothing hides behind it."""
    parts: list[str] = []
    at, last = 0, text.rfind("*/")
    while hit := _COMMENT.search(text, at):
        is_comment = hit[1] or hit.end() <= last
        parts += [text[at : hit.start()], " " if is_comment else hit[0]]
        at = hit.end() if hit[1] or not is_comment else text.index("*/", hit.end()) + 2
    return "".join([*parts, text[at:]])


def looks_like_sql(text: str) -> bool:
    """Whether a text among the arguments of a tool is SQL."""
    return bool(
        re.match(
            r"(?is)^\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*"
            r"(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|with|pragma|copy|attach)\s",
            text,
        )
    )
