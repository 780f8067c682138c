"""State documents: round trips, torn tails, and time in proportion to size."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import yaml
from document_strategies import HEAD, LONG, documents, refusal, steps, the_example, trying
from hypothesis import given
from hypothesis import strategies as st
from lanes import every, seconds, within

from kernel.document.markdown import render, render_steps
from kernel.document.model import (
    EMPTY,
    Document,
    Fold,
    Meta,
    Note,
    Section,
    Step,
)
from kernel.document.parser import committed, parse

# ---- round trip -------------------------------------------------------------------------------------------


@trying(200)
@given(documents())
def test_document_round_trips(document: Document):
    assert parse(render(document)) == document


@trying(100)
@given(documents(), st.integers(100, 200))
def test_rendering_a_parsed_document_changes_no_byte(document: Document, rev: int):
    raw = render(document, rev)

    assert render(parse(raw)) == raw
    assert parse(raw).meta.rev == rev


@trying(120)
@given(documents())
def test_changes_that_editors_make_are_harmless(document: Document):
    text = render(document).decode()
    edits: tuple[Callable[[str], str], ...] = (
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", "\r"),
        lambda t: "\ufeff" + t,
        lambda t: "\n".join(line.rstrip() for line in t.split("\n")),
        lambda t: t.rstrip("\n"),
        lambda t: t + "\n\n",
    )
    for edit in edits:
        assert parse(edit(text).encode()) == document


def test_frontmatter_is_yaml():
    meta = Meta(
        "system-a", "a", folder="ä: #b", waiting={"for": "person"}, extra={"later": ["x", {"y": 1.5}]}
    )

    front = yaml.safe_load(render(Document(meta)).decode().split("---\n")[1])

    assert (
        front["folder"] == "ä: #b"
        and front["waiting"] == meta.waiting
        and front["later"] == ["x", {"y": 1.5}]
    )


def test_trailing_blanks_are_ignored():
    text = the_example()
    spaced = re.sub(r"(?m)^(---|- \[.*|#.*|~~~.*|    ~~~.*|<.*|  - .*|[a-z]+: .*)$", r"\1 \t", text)

    assert spaced.count(" \t\n") > 40
    assert parse(spaced.encode()) == parse(text.encode())


def test_surrogates_and_nested_json_round_trip_in_arguments():
    nested: object = "x"
    for _ in range(200):
        nested = [nested]
    step = Step(
        1, "planned", "bash", {"deep": nested, "lone": "\ud800", "big": 10**4000, "inf": float("inf")}
    )
    document = Document(Meta("system-a", "a")).with_step(step)

    assert parse(render(document)) == document


def test_documented_example_parses():
    document = parse(the_example().encode())

    assert document.meta.status == "running" and document.meta.rev == 9
    assert document.task == "Mend add in sum.py, and write a summary of notes.txt."
    assert [step.state for step in document.steps.values()] == ["done", "running"]
    assert document.steps[1].result == "replaced 1 occurrence in sum.py (line 2)"
    assert document.steps[2].link == "tool-task-7f3kq2-2"
    assert document.note(2, "planned checks").source == "turn 1"
    assert parse(render(document)) == document


def test_rendering_the_example_folds_appended_entries():
    kept = re.sub(r"(?s)- \[ \] 1\. running.*?<!-- rev 7 -->\n\n", "", the_example()).replace(
        "<!-- rev 8 -->\n\n", ""
    )

    assert render(parse(the_example().encode())).decode() == kept


@pytest.mark.parametrize(
    "broken",
    [
        Document(Meta("a", "a", status="odd")),
        Document(Meta("a", "a", phase="odd")),
        Document(Meta("a", "a", extra={"a: b": 1})),
        Document(Meta("a", "a", extra={"run": 1})),
        Document(Meta("a", "a")).with_step(Step(1, "odd")),
        Document(Meta("a", "a")).with_notes(1, Note("Two\nlines", "")),
        Document(Meta("a", "a")).with_section(2, Section(folds=(Fold(1, "<b>"),))),
    ],
)
def test_document_that_cannot_be_parsed_is_not_rendered(broken: Document):
    with pytest.raises(ValueError):
        render(broken)


# ---- appending, torn tails --------------------------------------------------------------------------------


@trying(90)
@given(documents(last=3), steps(1, 3), steps(1, 2, first=2), st.data())
def test_tail_cut_at_any_byte_reads_as_an_earlier_state(
    document: Document, first: dict[int, Step], second: dict[int, Step], data: st.DataObject
):
    document = document.having(phase="do")
    raw = render(document, 1)
    states, at = [document.having(rev=1)], len(raw)
    for rev, each in enumerate([*first.values(), *second.values()], 2):
        step = replace(each, state="running") if each.state == "planned" else each  # it has begun
        raw += render_steps(states[-1], (step,), rev)
        states.append(states[-1].with_step(step).having(rev=rev))
    cut = data.draw(st.integers(at, len(raw)))

    body, tail = committed(raw[:cut])

    assert parse(raw) == states[-1]
    assert parse(raw[:cut]) in states
    assert body + tail == raw[:cut]
    assert parse(body) == parse(raw[:cut])
    again = body + render_steps(parse(body), (Step(99, "running", "bash", {"command": LONG}),), 50)
    assert parse(again).steps[99].args == {"command": LONG}


def test_append_to_a_file_without_final_newline_is_read():
    document = Document(Meta("system-a", "a", phase="do"))
    step = Step(1, "running", "bash", {})

    raw = render(document, 1).rstrip(b"\n") + render_steps(document, (step,), 2)

    assert parse(raw) == document.with_step(step).having(rev=2)


def test_cut_append_is_the_state_before_or_after():
    before = Document(Meta("system-a", "a", phase="do")).with_step(
        Step(1, "running", "write", {"text": LONG})
    )
    step = Step(1, "done", "write", {"text": LONG}, result="é\n<!-- rev 7 -->\n~~~", origin="tool:write")
    raw = render(before, 1)
    added = render_steps(before, (step,), 2)

    for cut in range(len(added)):
        assert parse(raw + added[:cut]) in (before.having(rev=1), before.with_step(step).having(rev=2))
    assert parse(raw + added) == before.with_step(step).having(rev=2)


@pytest.mark.parametrize(
    "tail",
    [b"\0" * 100, b"- [ ] 2. run", b"\n- [ ] 2. done x `{}`\n  - what:\n    ~~~text\n", b"<!-- re", b"\xc3"],
)
def test_torn_tail_is_returned_separately(tail: bytes):
    raw = render(Document(Meta("system-a", "a")), 3)

    assert committed(raw + tail) == (raw, tail)


def test_tail_cut_after_a_commit_line_inside_an_argument_is_torn():
    document = Document(Meta("system-a", "a", phase="do"))
    step = Step(1, "running", "bash", {"command": "echo '<!-- rev 9 -->'"})
    raw = render(document, 3)
    torn = render_steps(document, (step,), 4).partition(b"'\"}")[0]

    assert torn.endswith(b"<!-- rev 9 -->")
    assert committed(raw + torn) == (raw, torn)


@pytest.mark.parametrize("end", ["", "\n"])
def test_step_added_at_the_end_is_an_edit_or_an_error_with_a_fix(end: str):
    plan = {1: Step(1, "planned", "read", {"path": "a"})}
    waits = Document(Meta("system-a", "a", phase="plan", status="waiting"), {2: Section(steps=plan)})
    line = '- [ ] 3. planned read `{"path": "b"}`' + end
    assert parse(render(waits) + line.encode()).planned[3] == Step(3, "planned", "read", {"path": "b"})
    begun = waits.having(phase="do")
    assert "step 3 is in no plan; a step is added at the end of §2" in refusal(render(begun) + line.encode())
    for slip in ("- [ ] 3. read the file", "- [ ] 3. planned", "- read the file"):
        assert committed(render(begun) + slip.encode())[1] == b"" or slip.endswith("planned")
        assert "system" not in refusal(render(begun) + f"{slip}\n".encode())


def test_blank_lines_at_the_end_are_not_a_torn_tail():
    raw = render(Document(Meta("system-a", "a")), 3) + b"\n \n"

    assert committed(raw) == (raw, b"")


def test_text_added_at_the_end_is_not_a_torn_tail():
    raw = render(Document(Meta("system-a", "a")), 3) + b"### answer\nYes, both.\n"

    assert committed(raw) == (raw, b"")
    assert parse(raw).text(1, "answer") == "Yes, both."
    assert "not understood: 'Yes'" in refusal(render(Document(Meta("a", "a")), 3) + b"Yes\n")


def test_commit_line_inside_a_text_is_text():
    note = Note("task", "first\n<!-- rev 99 -->\nlast", "person")
    raw = render(Document(Meta("system-a", "a")).with_notes(1, note), 3)
    without = raw.rpartition(b"<!-- rev 3 -->")[0]

    assert committed(without) == (without, b"")
    assert "cut off" in refusal(without)
    assert parse(raw).section(1).notes == (note,)


def test_long_values_of_an_earlier_entry_are_not_repeated():
    running = Step(1, "running", "write", {"path": "a", "content": LONG, "other": LONG}, what="Write it.")
    document = Document(Meta("system-a", "a", phase="do")).with_step(running)
    done = replace(running, state="done", args={"path": "a", "content": LONG, "other": "x" * 99}, result="ok")

    tail = render_steps(document, (done,), 2)

    assert b"  - args content as before\n" in tail and b"  - what as before\n" in tail
    assert LONG.encode() not in tail and b"x" * 99 in tail
    assert parse(render(document, 1) + tail).steps[1] == done


def test_steps_are_appended_only_to_the_last_section():
    document = Document(Meta("system-a", "a", phase="do"))

    for other in (document.having(phase="check"), document.with_notes(4, Note("issues", "none"))):
        with pytest.raises(ValueError, match="save the whole document"):
            render_steps(other, (Step(1, "running"),), 2)


def test_editing_the_plan_does_not_change_the_record_of_a_step():
    planned = Step(1, "planned", "write", {"path": "a", "content": LONG})
    done = replace(planned, state="done", result="ok")
    document = Document(Meta("system-a", "a", phase="do")).with_section(2, Section(steps={1: planned}))
    raw = render(document, 1) + render_steps(document, (done,), 2)

    edited = parse(raw.replace(b"line\n", b"other\n", 40))

    assert edited.planned[1].args == {"path": "a", "content": LONG.replace("line", "other")}
    assert edited.steps[1] == done


# ---- size and time ----------------------------------------------------------------------------------------


def many_steps(count: int) -> Document:
    numbered = {
        n: Step(n, "done", "read", {"path": f"f{n}.txt"}, result=f"text of {n}\n", origin="tool:read")
        for n in range(1, count + 1)
    }
    return Document(Meta("system-a", "a", phase="do"), {3: Section(steps=numbered)})


@pytest.mark.parametrize("line", ["plain text of no note ", "a line\r\n\tof \\ text\n"])
def test_ten_megabytes_round_trip_within_seconds(line: str):
    text = line * (500_000 // every(10))
    step = Step(1, "done", "bash", {"command": text}, result=text, origin="tool:bash")
    document = Document(Meta("system-a", "a", phase="do")).with_notes(1, Note("task", text)).with_step(step)
    with within(30):
        assert parse(render(document)) == document


@pytest.mark.night
def test_parsing_time_is_linear_in_the_steps():
    small, large = render(many_steps(500)), render(many_steps(5000))

    assert seconds(lambda: parse(large)) < 25 * seconds(lambda: parse(small))


@pytest.mark.night
def test_append_time_does_not_depend_on_the_document():
    short, long = many_steps(5), many_steps(5000)
    step = Step(6000, "done", "read", {"path": "a"}, result="text", origin="tool:read")

    def append(document: Document) -> float:
        return seconds(lambda: [render_steps(document, (step,), 2) for _ in range(500)])

    assert append(long) < 3 * append(short)
    assert append(long) / 500 < 0.0005


@pytest.mark.parametrize(
    "line",
    [
        "`" * 100_000,
        "- [ ] 1. planned x " + "`" * 100_000,
        "- [ ] 1. planned x `{" + "}`" * 50_000 + "x",
        '- [ ] 1. planned `"' + '\\"' * 50_000 + "x",
        "- [ ] 1. planned x · needs " + "1, " * 50_000,
        "- [ ] 1. planned read\n  - args " + "a, " * 50_000,
        "### " + "a " * 50_000 + "·",
        "### a · from `" + "\\" * 100_000,
    ],
)
def test_invalid_lines_are_refused_quickly(line: str):
    with within(1):
        refusal(HEAD + "## §2 PLAN\n" + line + "\n")


# ---- values -----------------------------------------------------------------------------------------------


def test_documents_are_immutable():
    empty = Document(Meta("system-a", "a"))
    document = empty.with_notes(1, Note("task", "a"), Note("task", "b")).with_step(Step(1, "running"))

    assert empty.section(1) == EMPTY and empty.sections == {}
    assert document.task == "b" and document.text(1, "open", "none") == "none"
    assert document.with_notes(1, Note("resolved task", "c")).task == "c"
    assert document.with_step(Step(1, "done")).steps[1].ended and not document.steps[1].ended
    assert document.having(status="complete").ended and not document.ended
    assert document.with_section(3, EMPTY).with_section(1, EMPTY) == empty


def test_sections_after_the_phase_are_not_written():
    raw = render(Document(Meta("system-a", "a", phase="plan"))).decode()

    assert [line for line in raw.splitlines() if line.startswith("## ")] == ["## §1 UNDERSTAND", "## §2 PLAN"]


def test_arguments_are_written_as_plain_json():
    step = Step(1, "planned", "bash", {"command": "echo `date`"}, needs=(2,))
    raw = render(Document(Meta("system-a", "a")).with_step(step)).decode()

    assert "- [ ] 1. planned bash ``" + json.dumps({"command": "echo `date`"}) + "`` · needs 2\n" in raw
