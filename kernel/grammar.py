"""The lines of the state document, as patterns that writing and reading share.

What is a plain word stands plainly; whatever else a name may hold stands as JSON in a code span, so that
no name can break the document or become live in a viewer. The grammar, for a person:
docs/reading-a-document.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from kernel.text import COMMIT, code_span, ticked

PAD = "    "
"""The indent of a text that belongs to a step."""
INLINE = 80
"""Characters up to which a text argument stands on the step's own line."""

_NUMBER = r"[1-9][0-9]{0,8}"
_ODD = r'`+"[^"\\]*(?:\\.[^"\\]*)*"`+'  # a JSON string in a code span
_ORIGIN = r"(?:person|client|kernel|model|tool|reflex|memory)(?::[A-Za-z0-9][\w./:@+-]*)?"
_TOOL = r"[a-z][\w.-]*"
_LINK = r"\w[\w./-]*"
_SOURCE = r"[^\s`\"](?:[^`]*[^\s`])?"

META_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
META_WORD = re.compile(r"[\w./~][\w.:/@~-]*", re.ASCII)
NOTE_KEY = re.compile(r"[a-z][a-z0-9-]*(?: [a-z0-9-]+)*")
PART_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
ORIGIN = re.compile(_ORIGIN, re.ASCII)
TOOL = re.compile(rf"(?!subtask$){_TOOL}", re.ASCII)
LINK = re.compile(_LINK, re.ASCII)
SOURCE = re.compile(_SOURCE)
DECISION = re.compile(r"\w[\w -]*", re.ASCII)

HEADING = re.compile(r"## §([1-5]) ([A-Z]+)")
COMMIT_LINE = re.compile(rf"{COMMIT}([0-9]{{1,9}}) -->")
SUMMARY = re.compile(rf"<summary>attempt ({_NUMBER}) · (\w[\w -]*)</summary>", re.ASCII)
NOTE = re.compile(
    rf"### ((?i:{NOTE_KEY.pattern}))(?: · ({_ORIGIN}|{_ODD}))?(?: · from (`{_SOURCE}`|{_ODD}))?", re.ASCII
)
STEP_BEGINS = re.compile(r"- \[[ xX]\] [0-9]+\. ([a-z]+) \S")
STEP = re.compile(
    rf"- \[[ xX]\] ({_NUMBER})\. ([a-z]+) ({_TOOL}|{_ODD})"
    r"(?: (`+)({.*})\4(?!`))?"
    rf"(?: · needs ({_NUMBER}(?:, ?{_NUMBER})*))?"
    rf"(?: → (?:\[({_LINK})\]\([^()\s]*\)|({_ODD})))?",
    re.ASCII,
)
TEXT_PART = re.compile(
    rf"  - (?:(what):|arg ({PART_NAME.pattern})(?: → ({_LINK}))?:|result · ({_ORIGIN}|{_ODD}):?)", re.ASCII
)
JSON_PART = re.compile(r"  - (share|evidence): (`+)({.*})\2(?!`)", re.ASCII)
KEPT_PART = re.compile(r"  - (?:(what)|args ([\w, ]+)) as before", re.ASCII)


def word(text: str, plain: re.Pattern[str]) -> str:
    """A name as it stands in the document: plainly, or as JSON in a code span."""
    return text if plain.fullmatch(text) else code_span(text)


def unword(shown: str) -> str:
    """The name that `word` or `source_span` wrote; raises ValueError when it is not JSON after all."""
    inner = shown.strip("`")
    return json.loads(inner) if inner.startswith('"') else inner


def source_span(source: str) -> str:
    """Where a piece of context came from, as a code span."""
    return ticked(source) if SOURCE.fullmatch(source) and source.isprintable() else code_span(source)


def long_args(args: Mapping[str, Any], whole: Collection[str] = ()) -> list[str]:
    """The names of those arguments that get a block of their own instead of standing on the step's line."""
    return [
        name
        for name, value in args.items()
        if isinstance(value, str)
        and (len(value) > INLINE or "\n" in value or name in whole)
        and PART_NAME.fullmatch(name)
    ]
