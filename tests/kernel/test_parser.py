"""Parsing documents that were edited or damaged: each is read, or refused with a fix."""

from __future__ import annotations

import random
import re

import pytest
from document_strategies import BITS, HEAD, TEXT, documents, refusal, the_example, trying
from hypothesis import given
from hypothesis import strategies as st

from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Step
from kernel.document.parser import parse
from kernel.errors import DocumentError


def a_document(text: str) -> Document:
    return parse((HEAD + text).encode())


# ---- edits ------------------------------------------------------------------------------------------------


def test_plain_text_under_a_heading_is_a_note_of_a_person():
    document = a_document(
        "## §1 UNDERSTAND\n\n### Answer\n\nYes, in old/.  \nAlso *this*: 3 < 4\n\nand that.\n\n\n"
        "### open · kernel\n\n> x\n"
    )

    assert document.section(1).notes == (
        Note("answer", "Yes, in old/.\nAlso *this*: 3 < 4\n\nand that.", "person"),
        Note("open", "x", "kernel"),
    )


@trying(200)
@given(TEXT.filter(lambda text: "\r" not in text and "\ud800" not in text and "\udfff" not in text))
def test_any_text_under_a_heading_is_read_or_refused(text: str):
    try:
        raw = (HEAD + "## §1 UNDERSTAND\n\n### answer\n" + text).encode("utf-8", "replace")
        assert parse(raw).section(1).notes[0].key == "answer"
    except DocumentError as error:
        assert re.match(r"document:\d+: ", str(error))


def test_plain_text_ends_at_the_first_step():
    document = a_document(
        "## §2 PLAN\n\n### approach\nDo this:\n- [ ] 1. buy milk\n- [ ] 1. planned read `{}`\n"
    )

    assert document.text(2, "approach") == "Do this:\n- [ ] 1. buy milk"
    assert document.planned == {1: Step(1, "planned", "read", {})}


def test_arguments_and_state_of_a_step_can_be_edited():
    text = (
        the_example()
        .replace("- [x] 1. done", "- [x] 1. planned")
        .replace('"old": "a - b"', '"old":"a * b"')
        .replace("    replaced 1 occurrence in sum.py (line 2)", "    replaced 2\n\n    occurrences")
        .replace("    > Write a summary of notes.txt.", "    >Write\n    > less.")
    )

    document = parse(text.encode())

    assert document.steps[1].state == "planned"
    assert document.planned[1].args == {"path": "sum.py", "old": "a * b", "new": "a + b"}
    assert document.steps[1].result == "replaced 2\n\noccurrences"
    assert document.planned[2].what == "Write\nless." and document.planned[2].needs == (1,)


def test_quotes_and_defaults_of_the_frontmatter_are_optional():
    document = parse(
        b"---\nformat: 1\nid: system-7f3\nrun: 7f3kq2\n\nstatus: ready\ncreated: 2025-01-02T03:04:05Z\n---\n"
    )

    assert document == Document(Meta("system-7f3", "7f3kq2", created="2025-01-02T03:04:05Z"))


# ---- errors -----------------------------------------------------------------------------------------------

REFUSED = [
    ("", 1, "the first line of a state document is ---"),
    ("hello\n", 1, "the first line of a state document is ---"),
    ("---\nid: 1\n", 3, "never closed; add a line ---"),
    ("---\nid\n---\n", 2, "a line of the frontmatter is `key: JSON`"),
    ('---\nrun: "a"\nrun: "b"\n---\n', 3, "run occurs twice, first in line 2"),
    ('---\nrun: "a\n---\n', 2, "not JSON"),
    ("---\nx: " + "[" * 100_000 + "\n---\n", 2, "not JSON"),
    ('---\nid: "a"\nrun: "a"\n---\n', 1, "has no format"),
    ('---\nformat: 1\nid: "a"\n---\n', 1, "has no run"),
    ('---\nformat: 2\nid: "a"\nrun: "a"\n---\n', 2, "reads up to 1; install a newer one"),
    ('---\nformat: true\nid: "a"\nrun: "a"\n---\n', 2, "format cannot be true"),
    ('---\nformat: 1\nid: 7\nrun: "a"\n---\n', 3, "id cannot be 7"),
    *(
        (HEAD.replace('phase: "do"', line), 5, fault)
        for line, fault in [
            ("status: odd", 'status cannot be "odd"; one of cancelled, complete'),
            ("phase: 3", "phase cannot be 3"),
            ("attempt: -1", "attempt cannot be -1"),
            ("attempt: 1" + "0" * 30, "attempt cannot be 1000"),
            ("attempt: 1" + "0" * 5000, "attempt cannot be"),
            ("depth: true", "depth cannot be true"),
            ("unverified: 1", "unverified cannot be 1"),
            ("rungs: [1, 2]", "rungs[0] cannot be 1; an object is needed"),
            ("rungs: {}", "rungs cannot be {}"),
            ("waiting: []", "waiting cannot be []"),
            ('spent: {"usd": "much"}', 'spent.usd cannot be "much"; a number is needed'),
            ('budget: {"calls": [1]}', "budget.calls cannot be [1]"),
        ]
    ),
    *(
        (HEAD + "## §2 PLAN\n" + text, line, fault)
        for text, line, fault in [
            ("a person's words\n", 10, "under a heading such as ### answer"),
            ("## §2 DO\n", 10, "§2 is PLAN, not DO"),
            ("## §9 PLAN\n", 10, "not understood"),
            ("</details>\n", 10, "without <details>"),
            ("<details>\n### x\n", 11, "comes <summary>attempt N · decision"),
            ("<details>\n<summary>attempt 1 · RETRY</summary>\n", 12, "never closed; add a line </details>"),
            ("<details>\n<summary>attempt 1 · RETRY</summary>\n## §3 DO\n", 12, "still open"),
            ("<details>\n<summary>attempt 1 · RETRY</summary>\n- [ ] 1. planned x\n", 12, "only notes"),
            ("<details>\n<summary>attempt 1 · RETRY</summary>\n<details>\n", 12, "close the first"),
            ("- [ ] 1. nearly read `{}`\n", 10, "a step cannot be 'nearly'; one of done, failed"),
            ("- [ ] 1. planned read {}\n", 10, "a step is written - [ ] 1. planned tool"),
            ("- [ ] 0. planned read\n", 10, "a step is written"),
            ("- [ ] 1" + "0" * 30 + ". planned read\n", 10, "a step is written"),
            ("- [ ] 1. planned read `{nope}`\n", 10, "not JSON: '{nope}'"),
            ('- [ ] 1. planned `"\\q"` `{}`\n', 10, "not JSON"),
            ('- [ ] 1. planned x `{"a": ' + "[" * 100_000 + "}`\n", 10, "not JSON"),
            ("- [ ] 1. planned read\n- [ ] 1. planned list\n", 11, "step 1 occurs twice in §2"),
            ("- [ ] 1. planned read\n  - args path as before\n", 11, "path is marked as before"),
            ("- [ ] 1. planned read\n  - what:\nplain\n", 11, "indented by four blanks, belongs below"),
            (
                '- [ ] 1. planned read\n  - share: `{"usd": []}`\n',
                11,
                "share.usd cannot be []",
            ),
            ("- [ ] 1. planned read\n  - evidence: `{1}`\n", 11, "not JSON"),
            ("- [ ] 1. planned read\n  - what:\n    ~~~text\n    a\nb\n    ~~~\n", 14, "lost its indent"),
            ("### task · person\n\n~~~text\nabc\n", 12, "never closed; add a line '~~~'"),
            ('### task · person · from `"\\q"`\n\n> x\n', 10, "not JSON"),
        ]
    ),
    (HEAD + "### task · person\n\n> x\n", 9, "before the first section heading"),
    (HEAD + "- [ ] 1. planned read\n", 9, "before the first section heading"),
]


@pytest.mark.parametrize(("text", "line", "fault"), REFUSED)
def test_error_names_file_line_and_fix(text: str, line: int, fault: str):
    message = refusal(text)

    assert message.startswith(f"run/a.md:{line}: ")
    assert fault in message
    assert len(message) < 400 and "\n" not in message


def test_text_that_is_not_utf8_is_refused_with_its_line_number():
    assert (
        refusal((HEAD + "caf\xe9").encode("latin-1")) == "run/a.md:9: not UTF-8 text; save the file as UTF-8"
    )


# ---- fuzzing ----------------------------------------------------------------------------------------------


def reads_or_refuses(raw: bytes) -> None:
    try:
        document = parse(raw)
    except DocumentError as error:
        assert re.match(r"document:\d+: ", str(error))
    else:
        assert parse(render(document)) == document or "NaN" in raw.decode()


@trying(90)
@given(st.binary(max_size=80), st.lists(st.sampled_from(BITS)).map("".join))
def test_any_bytes_are_read_or_refused(raw: bytes, text: str):
    reads_or_refuses(raw)
    reads_or_refuses(HEAD.encode() + raw)
    reads_or_refuses((HEAD + "## §3 DO\n" + text).encode("utf-8", "replace"))


@trying(90)
@given(documents(), st.randoms(use_true_random=False))
def test_damaged_document_is_read_or_refused(document: Document, chance: random.Random):
    for raw in (render(document), the_example().encode()):
        for _ in range(6):
            reads_or_refuses(_damaged(raw, chance))


def _damaged(raw: bytes, chance: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[other])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines[at] = chance.choice(BITS).encode("utf-8", "replace") + lines[at]
    elif kind == 4:
        start = chance.randrange(len(raw))
        return raw[:start] + raw[start + chance.randrange(1, 9) :]
    else:
        start = chance.randrange(len(raw))
        return (
            raw[:start]
            + chance.choice([b"1", b"`", b"{", b"}", b'"', b"~", b"\0", b"9" * 5000])
            + raw[start:]
        )
    return b"\n".join(lines)


def test_nan_and_infinity_round_trip():
    text = HEAD + '## §3 DO\n- [x] 1. done calc `{"x": NaN, "y": -Infinity}`\n'

    assert b'`{"x": NaN, "y": -Infinity}`' in render(parse(text.encode()))
