"""Hypothesis strategies for state documents with any content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from lanes import examples

from kernel.document.frontmatter import EVIDENCE, unstorable
from kernel.document.model import (
    STATUSES,
    STEP_STATES,
    Document,
    Fold,
    Meta,
    Note,
    Section,
    Step,
)
from kernel.document.parser import parse
from kernel.errors import DocumentError

PAGE = Path(__file__).parents[2] / "docs" / "document-format.md"
HEAD = '---\nformat: 1\nid: "system-a"\nrun: "a"\nphase: "do"\n---\n# State: system-a\n\n'
LONG = "line\n" * 40


def the_example() -> str:
    """The document that docs/document-format.md shows."""
    return PAGE.read_text(encoding="utf-8").split("````markdown\n")[1].split("````")[0]


def refusal(text: str | bytes) -> str:
    """The error message for a document, run/a.md, that cannot be parsed."""
    with pytest.raises(DocumentError) as error:
        parse(text if isinstance(text, bytes) else text.encode(), "run/a.md")
    return str(error.value)


BITS = (
    *("\r", "\n", "\n\n", "\r\n", "\0", "`", "```", "````", "~~~", "~~~~", "~~~text", "~~~text esc"),
    *("## §3 DO", "### task · model", "---", "# ", "> ", ">", " ", "  ", "    ", "\t", "\\", "\\u{41}"),
    *("\\u{ffffff}", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1b[31m", "\x7f", "\ufeff"),
    *("\ud800", "\udfff", "é", "😀", "a", "b c", "{{ x }}", "</details>", "<details>", "<!-- rev 9 -->"),
    *("<!-- rev ", "- [ ] 1. done bash `{}`", "  - result · tool:x", "  - what:", "![x](y)", "[a]: b"),
    *("===", "\u202e", "1. ", "* ", "&amp;", "&#35;", "|", "\u00a0", "\u3000", "\U000e0041", "<b>", '"', "}"),
)
TEXT = st.one_of(
    st.lists(st.sampled_from(BITS), max_size=10).map("".join),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=30),
    st.text(alphabet="ab \n", min_size=70, max_size=130),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def _as_read(value: Any) -> Any:
    """A value as JSON reads it back: JSON joins two adjacent surrogate halves."""
    return json.loads(json.dumps(value))


JSON = _JSON.map(_as_read)
OBJECT = st.dictionaries(TEXT, _JSON, max_size=3).map(_as_read)
ARGS = st.dictionaries(
    st.sampled_from(["path", "content", "command", "_a_", "Old"]) | TEXT, _JSON, max_size=3
).map(_as_read)
AMOUNTS = st.dictionaries(
    st.sampled_from(["calls", "usd", "tokens"]), st.integers(0, 99) | st.floats(0, 9), max_size=2
)
ORIGIN = st.sampled_from(
    [
        "person",
        "kernel",
        "model:openai/gpt-4.1",
        "tool:bash",
        "tool",
        "reflex:count-words@3",
        "model:llama:/m/a b.gguf",
    ]
) | TEXT.map("model:".__add__)
SOURCE = st.sampled_from(["", "folder", "AGENTS.md", "step 2", "file `x`", '"', " "]) | TEXT.map(_as_read)
KEY = st.sampled_from(["task", "context", "resolved task", "success criteria", "learned", "look 2"])
LINK = st.sampled_from(["", "op-bash-7f3kq2-1.2", "op-bash-7f3kq2-1.md", "a b](c)"]) | TEXT.map(_as_read)
TOOL = st.sampled_from(["", "bash", "csv", "research", "mcp.server/tool", "subtask"]) | TEXT.map(_as_read)
NOTE = st.builds(Note, KEY, TEXT, ORIGIN.map(_as_read), SOURCE)
NOTES = st.lists(NOTE, max_size=2).map(tuple)
FOLD = st.builds(Fold, st.integers(1, 99), st.sampled_from(["RETRY", "max retries exceeded"]), NOTES)


def _is_evidence(value: dict[str, Any]) -> bool:
    """Whether no member has the name of a known one and another type."""
    return not unstorable(value, EVIDENCE, "evidence")


@st.composite
def steps(draw: st.DrawFn, least: int = 0, most: int = 3, first: int = 1) -> dict[int, Step]:
    """Steps with any content, numbered from `first`."""
    made: dict[int, Step] = {}
    for n in range(first, first + draw(st.integers(least, most))):
        result = draw(st.none() | TEXT)
        made[n] = Step(
            n,
            draw(st.sampled_from(sorted(STEP_STATES))),
            draw(TOOL),
            draw(st.none() | ARGS),
            draw(st.just("") | TEXT),
            tuple(draw(st.lists(st.integers(1, 9), max_size=2))),
            draw(LINK),
            draw(st.none() | AMOUNTS),
            result,
            draw(ORIGIN.map(_as_read)) if result is not None else "kernel",
            draw(st.just({}) | OBJECT.filter(_is_evidence)),
        )
    return made


@st.composite
def metas(draw: st.DrawFn) -> Meta:
    """META with any status and phase, nested values and unknown keys."""
    return Meta(
        id="system-7f3kq2",
        run="7f3kq2",
        status=draw(st.sampled_from(sorted(STATUSES))),
        phase=draw(st.sampled_from(["understand", "plan", "do", "check", "output"])),
        rev=draw(st.integers(1, 99)),
        folder=draw(st.just(".") | TEXT.map(_as_read)),
        rungs=tuple(draw(st.lists(OBJECT, max_size=2))),
        budget=draw(AMOUNTS),
        spent=draw(AMOUNTS),
        waiting=draw(st.none() | OBJECT.map(lambda each: {**each, "for": "person"})),
        unverified=draw(st.booleans()),
        extra=draw(st.dictionaries(st.sampled_from(["note", "x-later", "lease.owner"]), JSON, max_size=2)),
    )


@st.composite
def documents(draw: st.DrawFn, last: int = 5) -> Document:
    """Documents with content in any of the sections up to `last`."""
    document = Document(draw(metas()))
    for number in range(1, last + 1):
        folds = tuple(draw(st.lists(FOLD, max_size=1))) if number in (1, 2, 3) else ()
        many = draw(steps(most=2)) if number in (2, 3) else {}
        document = document.with_section(number, Section(folds, draw(NOTES), many))
    return document


def trying(count: int) -> settings:
    """Hypothesis settings: how many examples at night, on any machine."""
    return settings(max_examples=examples(count), deadline=None, suppress_health_check=list(HealthCheck))
