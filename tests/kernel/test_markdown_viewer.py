"""How a markdown viewer renders a document: our structure, and every text as data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from document_strategies import TEXT, documents, trying
from hypothesis import example, given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kernel.document.escaping import block, to_json
from kernel.document.markdown import long_args, render
from kernel.document.model import NAMES, Document, Meta, Note, Section, Step
from kernel.document.parser import parse

VIEWER = MarkdownIt("commonmark")
OUR_HTML = re.compile(r"<details>\n<summary>attempt \d+ · [\w -]+</summary>|</details>|<!-- rev \d+ -->")


def viewed(document: Document) -> list[Token]:
    body = render(document).decode().split("\n---\n", 1)[1]
    return VIEWER.parse(body)


def headings(tokens: list[Token]) -> list[str]:
    opened = [at for at, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0]
    return [tokens[at + 1].content for at in opened]


def fences(tokens: list[Token]) -> list[str]:
    return [token.content for token in tokens if token.type == "fence"]


def our_headings(document: Document) -> list[str]:
    """The beginnings of the expected headings."""
    begins = [f"State: {document.meta.id}"]
    last = max(
        [
            1,
            *(
                number
                for number, section in document.sections.items()
                if section.notes or section.folds or section.steps
            ),
        ]
    )
    shown = {"understand": 1, "plan": 2, "do": 3, "check": 4, "output": 5}[document.meta.phase]
    for number in range(1, max(last, shown) + 1):
        begins.append(f"§{number} {NAMES[number]}")
        section = document.section(number)
        begins += [f"{note.key} · " for fold in section.folds for note in fold.notes]
        begins += [f"{note.key} · " for note in section.notes]
    return begins


def tool_texts(document: Document) -> Iterator[str]:
    """Texts that must be fenced: tool output, text with a source, long arguments."""
    for section in document.sections.values():
        for note in [*section.notes, *(note for fold in section.folds for note in fold.notes)]:
            if note.source or note.origin.startswith("tool"):
                yield note.text
        for step in section.steps.values():
            yield from (step.args[name] for name in long_args(step.args or {}))
            if step.result is not None and step.origin.startswith("tool"):
                yield step.result


@trying(100)
@given(documents())
def test_viewer_shows_exactly_our_headings(document: Document):
    seen, meant = headings(viewed(document)), our_headings(document)

    assert len(seen) == len(meant)
    assert all(one.startswith(other) for one, other in zip(seen, meant, strict=True))


@trying(100)
@given(documents())
def test_viewer_shows_no_other_html(document: Document):
    for token in viewed(document):
        if token.type == "html_block":
            assert OUR_HTML.fullmatch(token.content.strip())
        assert not any(child.type in ("html_inline", "image") for child in token.children or ())


@trying(100)
@given(documents())
def test_viewer_shows_tool_output_exactly_as_data(document: Document):
    shown = fences(viewed(document))

    for text in tool_texts(document):
        lines = block(text, fenced=True)
        assert "\n".join(lines[1:-1]) + "\n" in shown


@trying(100)
@given(documents())
def test_viewer_shows_step_arguments_exactly(document: Document):
    spans = [
        child.content
        for token in viewed(document)
        for child in (token.children or ())
        if token.type == "inline" and child.type == "code_inline"
    ]
    for section in document.sections.values():
        for step in section.steps.values():
            if step.args is not None:
                short = {k: v for k, v in step.args.items() if k not in long_args(step.args)}
                assert to_json(short) in spans
            if step.evidence:
                assert to_json(dict(step.evidence)) in spans


@trying(100)
@given(TEXT)
@example("a\n===")
@example("# Heading\n\n- [x] 1. done bash `{}`")
def test_text_stays_inside_its_note_or_step(text: str):
    step = Step(1, "done", "", what=text, result=text, origin="model:x")
    document = Document(Meta("system-a", "a", phase="do")).with_notes(1, Note("task", text, "person"))

    tokens = viewed(document.with_step(step))

    assert [each.type for each in tokens if each.level == 0 and each.nesting >= 0] == [
        *["heading_open", "heading_open", "heading_open"],
        "blockquote_open" if block(text, fenced=text[:1] in ("{", "["))[0].startswith(">") else "fence",
        *["heading_open", "heading_open", "bullet_list_open", "html_block"],
    ]


def test_parts_of_a_step_are_a_nested_list():
    step = Step(
        1, "done", "write", {"path": "a", "text": "1\n2"}, "Write it.", result="ok", origin="tool:write"
    )

    html = VIEWER.render(
        "\n".join(render(Document(Meta("system-a", "a")).with_step(step)).decode().splitlines()[12:])
    )

    assert "<li>what:\n<blockquote>\n<p>Write it.</p>" in html
    assert '<li>arg text:<pre><code class="language-text">1\n2\n</code></pre>' in html
    assert '<li>result · tool:write<pre><code class="language-text">ok\n</code></pre>' in html


def test_lists_and_json_keep_their_lines():
    notes = (
        Note("evidence", "criterion 1: met\ncriterion 2: met", "kernel"),
        Note("success criteria", '{"run": "true"}\n{"judge": "good"}', "model:x"),
        Note("context", "# not a heading", "kernel", "step 2"),
    )
    document = Document(Meta("system-a", "a")).with_section(1, Section(notes=notes))

    assert fences(viewed(document)) == [note.text + "\n" for note in notes]
    assert parse(render(document)) == document
