"""What a text of SQL would destroy: tables dropped, rows deleted or changed without a WHERE."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "drops",
        re.compile(
            r"(?is)^\s*(?:drop\s+(?:table|database|schema|view|index|column|user|role|keyspace|collection)|alter\s+table\s.*\bdrop\b)"
        ),
    ),
    ("empties", re.compile(r"(?is)^\s*truncate\b")),
    ("deletes", re.compile(r"(?is)^\s*(?:with\b.*)?delete\s+from\b(?!.*\bwhere\b)")),
    (
        "deletes",
        re.compile(
            r"(?is)^\s*(?:with\b.*)?delete\s+from\b.*\bwhere\s+(?:\(?\s*(?:1|true|1\s*=\s*1|'?a'?\s*=\s*'?a'?|not\s+false|id\s+is\s+not\s+null|rowid\s*>\s*0)\s*\)?)\s*$"
        ),
    ),
    ("updates", re.compile(r"(?is)^\s*(?:with\b.*)?update\b.*\bset\b(?!.*\bwhere\b)")),
    ("grants", re.compile(r"(?is)^\s*(?:grant|revoke|alter\s+(?:user|role)|create\s+(?:user|role))\b")),
    (
        "runs",
        re.compile(
            r"(?is)\bcopy\b.*\b(?:to|from)\s+program\b|\bxp_cmdshell\b|\bload_extension\s*\(|\binto\s+(?:out|dump)file\b|\bsys_exec\s*\(|\bpg_read_file\s*\(|^\s*\\!|^\s*system\s"
        ),
    ),
    ("drops", re.compile(r"(?i)\.(?:dropDatabase|drop|dropCollection)\s*\(|\b(?:flushall|flushdb)\b")),
    ("deletes", re.compile(r"(?i)\.(?:deleteMany|remove)\s*\(\s*(?:\{\s*\})?\s*\)")),
)
_READS = re.compile(r"(?is)^\s*(?:select|explain|show|describe|pragma|values|\.\w+)\b")


def statements(text: str) -> list[tuple[str, frozenset[str]]]:
    """The statements of a text that would destroy or open something, each with what it is."""
    found: list[tuple[str, frozenset[str]]] = []
    if len(text) > 100_000:
        return [("too long to be looked through", frozenset({"drops"}))]
    bare = _COMMENT.sub(
        " ", _TEXT.sub(lambda hit: hit[0].replace(";", ",").replace("--", "  ").replace("/*", "  "), text)
    )
    for each in bare.split(";"):
        looked = _TEXT.sub("''", each) if "where" not in each.lower() else each
        tags = frozenset(tag for tag, form in _FORMS if form.search(looked))
        if tags:
            found.append((" ".join(each.split())[:120], tags))
    return found


def looks_like(text: str) -> bool:
    """Whether a text that somebody hands to a tool is SQL."""
    return bool(
        re.match(
            r"(?is)^\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*"
            r"(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|with|pragma|copy|attach)\s",
            text,
        )
    )
