"""The reflex rung as a responder: it offers, answers each phase from the document, and checks by evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.asking.replies import Plan, Verdict
from kernel.asking.responder import FREE, Ask, Ladder, Responder
from kernel.asking.turn import TURN, typed
from kernel.document.model import Document, Fold, Meta, Note, Section, Step
from kernel.errors import Declined
from runtime.models.human import Human
from runtime.reflexes.reflex import Reflex

SYSTEM = Path(__file__).parents[3] / "system"
REFLEX = Reflex([SYSTEM])
README = (
    "count the lines of every markdown file under system, largest first, into lines.csv, then tell the total"
)


def document(task: str, *notes: Note, **meta) -> Document:
    first = Section(notes=(Note("task", task, "person"), *notes))
    return Document(Meta(id="system-abc123", run="abc123", **meta), {1: first})


def before(text: str, source: str = "step 1") -> Note:
    return Note("context", text, "tool:task", source)


@pytest.fixture
def answered(make_ask):
    async def answer(phase: str, given: Document, evidence=None, reflex: Reflex = REFLEX):
        ask: Ask = replace(make_ask(phase), document=given, evidence=evidence or {})
        reply = await reflex.answer(ask)
        read = typed(phase, json.loads(reply.text))
        return read.steps if phase == TURN else read, reply

    return answer


def test_it_is_the_lowest_rung_and_free(make_ask):
    assert isinstance(REFLEX, Responder)
    assert (REFLEX.name, REFLEX.tier, REFLEX.reads_prompt) == ("reflex", "reflex", False)
    assert REFLEX.estimate(make_ask()) == FREE
    ladder = Ladder((REFLEX, Human()))
    assert ladder.taker(document("what is 2 + 2")) is ladder.rungs[0]
    assert ladder.taker(document("write a poem")) is ladder.rungs[1]


def test_it_offers_only_what_it_covers_whole():
    for task in ("count the lines of a.md", README, "what is 12 * (3 + 4)"):
        assert (REFLEX.offers(task, document(task)) or 0) > 0.9
    for task in ("count the lines of a.md but not the blank ones", "", " ", "?", "do not delete b.txt"):
        assert REFLEX.offers(task, document(task)) is None


def test_a_tools_own_loop_is_left_to_the_tools_own_text():
    task = "count the lines of a.md"
    assert REFLEX.offers(task, document(task, type="research")) is None


async def test_a_turn_takes_the_task_as_it_stands(answered):
    reply, raw = await answered(TURN, document("count the lines of a.md"))
    assert (reply.task, reply.context) == ("count the lines of a.md", ())
    assert raw.model == "reflex:count-in-file"
    assert raw.usage == FREE


async def test_a_turn_says_what_it_means(answered):
    reply, _ = await answered(TURN, document("tell the total", before("1\n2\n3")))
    assert [fact.source for fact in reply.context] == ["step 1"]


async def test_a_plan_names_the_reflex_and_how_its_slots_were_bound(answered):
    reply, _ = await answered(TURN, document("please count the words of notes.txt"))
    assert isinstance(reply, Plan)
    assert reply.steps[0].tool == "count"
    assert reply.steps[0].args == {"what": "words", "path": "notes.txt", "format": "total"}
    assert reply.confidence == "high"
    assert "system/reflexes/count-in-file.md" in reply.approach
    assert 'path = "notes.txt"' in reply.rationale
    assert "every word is covered by a phrasing of system/reflexes/count-in-file.md" in reply.rationale


async def test_a_plan_has_its_own_numbers_and_an_output_the_documents(answered):
    given = document("count the lines of *.md into lines.csv", base=4)
    reply, _ = await answered(TURN, given)
    assert reply.steps[1].args["content"] == "{{ steps[1].result }}\n"
    assert reply.success[1] == {"check": "differs", "file": "lines.csv"}
    verdict, _ = await answered("check", document("15% of 80", base=4))
    assert verdict.output == "{{ steps[5].result }}"


async def test_several_tasks_become_children_that_need_each_other(answered):
    reply, raw = await answered(TURN, document(README))
    assert [step.subtask for step in reply.steps] == [
        "count the lines of every markdown file under system, largest first, into lines.csv",
        "tell the total",
    ]
    assert [step.needs for step in reply.steps] == [(), (1,)]
    assert raw.model == "reflex:count-in-files-to-csv+total-of-table-file"
    verdict, _ = await answered("check", document(README))
    assert verdict.output == "{{ steps[2].result }}"


async def test_a_child_finds_what_the_step_before_has_written(answered):
    given = document("tell the total", before("Wrote lines.csv (columns: path, lines)"))
    reply, _ = await answered(TURN, given)
    assert reply.steps[0].args == {"path": "lines.csv", "query": "sum lines"}


async def test_the_child_gets_what_it_stands_for(answered):
    reply, _ = await answered(TURN, document('write "x" to "my notes.txt", then read it'))
    assert [step.subtask for step in reply.steps] == ['write "x" to "my notes.txt"', 'read "my notes.txt"']


async def test_a_result_that_is_passed_on_is_passed_on_whole(answered):
    task = "find all markdown files under docs, sort them, save it to out.txt"
    reply, _ = await answered(TURN, document(task))
    assert [step.tool for step in reply.steps] == ["find", "sort", "write"]
    assert reply.steps[1].args["text"] == "{{ steps[1].result }}"
    assert reply.steps[2].args == {"path": "out.txt", "content": "{{ steps[2].result }}", "lines": True}
    verdict, _ = await answered("check", document(task))
    assert verdict.output == "Wrote out.txt"


async def test_answers_are_joined_and_files_are_not(answered):
    task = "how many lines are in a.md; how many words are in a.md"
    verdict, _ = await answered("check", document(task))
    assert verdict.output == "{{ steps[1].result }}\n\n{{ steps[2].result }}"
    verdict, _ = await answered("check", document("copy a.md to b.md, then show c.md"))
    assert verdict.output == "{{ steps[2].result }}"


@pytest.mark.parametrize(
    "task", ["write `{{ steps[1].result }}` to a.txt", "write '\\{{ steps[9].x }}' to a.txt"]
)
async def test_what_a_person_wrote_is_never_a_reference(answered, task):
    from kernel.document.references import substitute

    reply, _ = await answered(TURN, document(task))
    filled = substitute(reply.steps[0].args, {})
    assert filled["content"] == task[len("write '") : -len("' to a.txt")]


async def test_a_result_before_may_be_text_from_a_pipe_or_an_earlier_run(answered):
    reply, _ = await answered(TURN, document("sort them", before("b\na\n", "stdin")))
    assert reply.steps[0].args["text"] == "b\na\n"
    run = before("Task: what is 2 + 2\nOutput: 4", "run q7x2kd")
    reply, _ = await answered(TURN, document("multiply it by 3", run))
    assert reply.steps[0].args == {"expression": "4 * 3"}


def test_a_result_that_was_cut_is_not_taken_for_the_whole():
    note = before("1\n2\n[… 9000 characters cut; whole in artifacts/x.txt …]\n3")
    assert REFLEX.offers("sum them up", document("sum them up", note)) is None


def test_other_context_is_no_result():
    note = before("1\n2", "AGENTS.md")
    assert REFLEX.offers("sum them up", document("sum them up", note)) is None


def test_the_answer_of_a_person_is_read_instead():
    given = document("do that thing", Note("resolved task", "what is 2 + 2", "person"))
    assert REFLEX.offers(given.task, given) is not None


# ---- CHECK -----------------------------------------------------------------------------------------------


def evidence(after, failed=()):
    return {
        "criteria": [{"criterion": {"file": "a"}, "before": False, "after": after}],
        "failed_steps": [*failed],
    }


@pytest.mark.parametrize("after", [True, None])
async def test_check_accepts_what_the_kernel_saw(answered, after):
    verdict, _ = await answered("check", document("how big is a.txt"), evidence(after))
    assert (verdict.decision, verdict.output) == ("ACCEPT", "{{ steps[1].result }} bytes")


async def test_check_escalates_what_failed_and_says_why(answered):
    given = document("read a.txt").with_section(
        3, Section(steps={1: Step(1, "failed", "read", {}, result="a.txt: there is no such file")})
    )
    verdict, _ = await answered("check", given, evidence(False, [1]))
    assert isinstance(verdict, Verdict)
    assert verdict.decision == "ESCALATE"
    assert "there is no such file" in verdict.issues[0]
    assert "there is no such file" in verdict.learned
    verdict, _ = await answered("check", given, evidence(False))
    assert verdict.decision == "ESCALATE"


async def test_what_failed_once_is_not_tried_again_the_same_way(answered):
    task = "read a.txt"
    reply, _ = await answered(TURN, document(task))
    fold = Fold(1, "escalate", (Note("approach", reply.approach, "reflex:read-file"),))
    again = document(task, attempt=2, base=1).with_section(2, Section(folds=(fold,)))
    assert REFLEX.offers(task, again) is None
    answered_otherwise = again.with_notes(1, Note("resolved task", "read b.txt", "person"))
    assert REFLEX.offers("read b.txt", answered_otherwise) is not None


# ---- what it leaves to others ----------------------------------------------------------------------------


async def test_it_passes_where_it_has_nothing_to_say(answered):
    for phase, task in (("do", "read a.txt"), ("plan", "write a poem"), ("check", "write a poem")):
        with pytest.raises(Declined):
            await answered(phase, document(task))


# ---- the files -------------------------------------------------------------------------------------------

GREET = """---
name: greet
description: greet somebody
phrasings: |
  greet {who:word}
steps:
  - tool: bash
    args: {command: 'echo {{ who | sh }}'}
success:
  - {step: 1}
---
# Greet
"""


def system(folder: Path, **files: str) -> Path:
    (folder / "reflexes").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / "reflexes" / f"{name}.md").write_text(text, "utf-8")
    return folder


def offers(reflex: Reflex, task: str) -> bool:
    return reflex.offers(task, document(task)) is not None


async def test_a_new_or_changed_file_is_there_at_once(tmp_path, answered):
    own = system(tmp_path / "own")
    reflex = Reflex([own, SYSTEM])
    assert not offers(reflex, "greet Ann")
    system(own, greet=GREET)
    assert offers(reflex, "greet Ann")
    plan, _ = await answered(TURN, document("greet 'Ann; rm -rf x'"), reflex=reflex)
    assert plan.steps[0].args == {"command": "echo 'Ann; rm -rf x'"}
    system(own, greet=GREET.replace("greet {", "salute {"))
    assert not offers(reflex, "greet Ann")
    assert offers(reflex, "salute Ann")
    (own / "reflexes" / "greet.md").unlink()
    assert not offers(reflex, "salute Ann")


def test_the_first_folder_that_has_a_file_wins(tmp_path):
    own = system(tmp_path / "own", arithmetic=GREET.replace("greet {", "salute {"))
    reflex = Reflex([own, SYSTEM])
    assert offers(reflex, "salute Ann")
    assert not offers(reflex, "what is 2 + 2")
    assert offers(reflex, "15% of 80")


def test_a_retired_reflex_rests(tmp_path):
    own = system(tmp_path, greet=GREET.replace("phrasings", "status: retired\nphrasings"))
    assert not offers(Reflex([own]), "greet Ann")


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("no frontmatter", 1, "frontmatter"),
        ("---\nname: [\n---\n", 3, "not YAML"),
        ("---\n- a\n---\n", 2, "mapping"),
        (GREET.replace("phrasings", "phrases"), 1, "phrases"),
        (GREET.replace("steps:", "stepps:"), 1, "stepps"),
        (GREET.replace("  greet {who:word}\n", ""), 1, "phrasings"),
        (GREET.replace("{who:word}", "{who:wizard}"), 5, "wizard"),
        (GREET.replace("greet {who:word}", "greet [{who:word}"), 5, "never closed"),
        (GREET.replace("greet {who:word}", "greet | hail {who:word}"), 5, "parentheses"),
        (GREET.replace("greet {who", "<shout> {who"), 5, "<shout>"),
    ],
)
def test_a_broken_file_is_left_out_and_reported_by_file_and_line(tmp_path, text, line, word):
    reflex = Reflex([system(tmp_path, greet=GREET, broken=text.replace("name: greet", "name: broken"))])
    assert offers(reflex, "greet Ann")
    (fault,) = reflex.faults
    assert (fault.path.name, fault.line) == ("broken.md", line)
    assert word in fault.message


def test_bytes_that_are_no_text_are_reported(tmp_path):
    own = system(tmp_path, greet=GREET)
    (own / "reflexes" / "bytes.md").write_bytes(b"---\n\xff\xfe\n---\n")
    assert "UTF-8" in Reflex([own]).faults[0].message


def test_without_any_folder_it_offers_nothing(tmp_path):
    assert not offers(Reflex([]), "what is 2 + 2")
    assert not offers(Reflex([tmp_path / "nowhere"]), "what is 2 + 2")


def test_two_reflexes_that_read_a_task_differently_are_not_sure(tmp_path):
    other = GREET.replace("name: greet", "name: hail").replace("echo", "printf %s")
    reflex = Reflex([system(tmp_path, greet=GREET, hail=other)])
    assert not offers(reflex, "greet Ann")
    more = GREET.replace("{who:word}", "{who:word} loudly").replace("echo", "printf %s")
    (tmp_path / "reflexes" / "hail.md").unlink()
    reflex = Reflex([system(tmp_path, shout=more)])
    assert offers(reflex, "greet Ann")
    assert offers(reflex, "greet Ann loudly")
