"""`fractal remember`, `recall`, `goal`, `wander` and `forget`, as processes."""

from __future__ import annotations

import json
import os
import sys

import pytest
from command_line import COMMAND, Command, environment
from warm import Process, run

FACTS = [
    "My sister Ann lives in Bern.",
    "Ann's birthday is on 4 May.",
    "The shed key hangs behind the oven.",
    "The backup runs every night at two.",
    "Ann likes rye bread.",
    "The staging server is called heron.",
    "Deploys go out on Tuesdays.",
    "Bob reviews every deploy before it goes out.",
    "The rye bread recipe needs 400 g of flour.",
]


@pytest.fixture
def knowing(fractal: Command) -> Command:
    """A workspace that knows two things."""
    (fractal.folder / "fractal.yaml").write_text("embedder: lexical\n")
    ran = fractal("remember", stdin="my sister's birthday is 4 May\n\nthe report is due Friday\n")
    assert ran.exit == 0
    return fractal


def test_what_was_remembered_is_recalled_with_who_said_it(knowing: Command):
    ran = knowing("recall", "when", "is", "my", "sister's", "birthday")
    assert ran.exit == 0 and "my sister's birthday is 4 May" in ran.out.splitlines()[0]
    assert "said by you" in ran.out and "report" not in ran.out
    (first, *_) = json.loads(knowing("recall", "birthday of my sister", "--json").out)
    assert first["text"] == "my sister's birthday is 4 May" and 0 < first["score"] <= 1 and first["parts"]


def test_what_only_hangs_together_with_the_answer_is_shown_where_it_counts(fractal: Command):
    """The dream joins some of these; nothing stays that has no share in the answer."""
    for fact in FACTS:
        assert fractal("remember", fact).exit == 0
    assert fractal("dream").exit == 0
    found = json.loads(fractal("recall", "when is my sister's birthday", "--json").out)
    assert found[0]["text"] == "Ann's birthday is on 4 May."
    least = 0.01 * found[0]["rank"]
    assert all(each["score"] >= 0.3 or each["rank"] >= least for each in found)
    assert "The backup runs every night at two." not in [each["text"] for each in found]


def test_explain_tells_how_each_score_came_about(knowing: Command):
    output = knowing("recall", "the report", "--explain").out
    assert "rank 0." in output and "similarity to the question" in output and "words +" in output


def test_an_empty_recall_is_reported_and_is_no_error(fractal: Command):
    ran = fractal("recall", "the moon base")
    assert (ran.exit, ran.out) == (0, "") and "I know nothing about that" in ran.err
    ran = fractal("forget", "moon", "--yes")
    assert ran.exit == 0 and "nothing is remembered" in ran.err
    assert not (fractal.folder / ".fractal" / "state" / "memory").exists()


def test_a_goal_is_set_listed_and_reached(knowing: Command):
    id = knowing("goal", "the report is sent", "--priority", "0.9").out.split()[0]
    assert "the report is sent" in knowing("goal").out and "priority 0.9" in knowing("goal", "list").out
    assert knowing("goal", "reached", id).out == "reached: the report is sent\n"
    assert "no goals" in knowing("goal").err
    (listed,) = json.loads(knowing("goal", "--all", "--json").out)
    assert listed["reached"] and listed["id"].startswith(id)
    ran = knowing("goal", "reached", "nonesuch")
    assert ran.exit == 2 and "no goal" in ran.err


def test_a_walk_is_the_same_for_the_same_seed(knowing: Command):
    first, second = (knowing("wander", "--seed", "7", "--json").out for _ in range(2))
    assert json.loads(first) == json.loads(second) and json.loads(first)["steps"]


def test_forgetting_shows_first_and_does_it_with_a_yes(knowing: Command):
    shown = knowing("forget", "sister")
    assert shown.exit == 0 and "- memory" in shown.out and "add --yes" in shown.err
    assert "birthday" in knowing("recall", "sister").out
    done = knowing("forget", "sister", "--yes")
    assert done.exit == 0 and done.out.startswith("forgotten: 1 observation, 1 memory")
    assert knowing("recall", "sister birthday").out == ""
    state = knowing.folder / "state"
    assert state.is_dir()
    assert [path for path in state.rglob("*") if path.is_file() and b"birthday" in path.read_bytes()] == []
    assert "nothing that matches" in knowing("forget", "sister").err


def test_forgetting_by_the_id_that_recall_printed(knowing: Command):
    (found, *_) = json.loads(knowing("recall", "report", "--json").out)
    report = json.loads(knowing("forget", found["id"][:10], "--yes", "--json").out)
    assert {each["kind"] for each in report["forgets"]} == {"memory", "observation"}
    assert knowing("recall", "report").out == "" and "sister" in knowing("recall", "sister").out


@pytest.mark.parametrize(
    ("words", "stdin", "says"),
    [
        (["remember"], b"", "empty"),
        (["remember"], b"caf\xe9 is French", "not UTF-8"),
        (["remember"], b"x" * 30_000, "at most 20000"),
        (["remember"], b"a fact\n\n" * 1_500_000, "too many at once"),
        (["remember", "-"], b"y" * 20_000_001, "bytes"),
        (["remember", "it is so", "--at", "someday"], b"", "no date"),
        (["recall", " "], b"", "say what"),
        (["recall", "x " * 4_000], b"", "too long"),
        (["forget"], b"", "say what to forget"),
        (["forget", "a", "--run", "b"], b"", "with one of"),
        (["forget", "--before", "soon"], b"", "no date"),
        (["wander", "--steps", "0"], b"", "steps"),
    ],
)
def test_bad_input_gets_a_clear_word_and_keeps_nothing(fractal: Command, words, stdin, says):
    ran = run(
        [*COMMAND, *words],
        cwd=fractal.folder,
        env=environment(),
        input=stdin,
        capture_output=True,
        timeout=60,
    )
    stderr = ran.stderr.decode()
    assert ran.returncode == 2 and says in stderr and "Traceback" not in stderr


def test_a_secret_is_left_out_of_what_is_remembered(fractal: Command):
    secret = "sk-" + "a1B2c3D4" * 4
    assert secret not in fractal("remember", f"my key is {secret}").out
    state = fractal.folder / ".fractal" / "state"
    assert not any(secret.encode() in path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_a_broken_store_and_one_that_cannot_be_written_are_reported(fractal: Command):
    knowing = fractal
    assert knowing.process("remember", "my sister's birthday is 4 May").exit == 0
    store = next(knowing.folder.rglob("brain.sqlite3"))
    whole = store.read_bytes()
    store.write_bytes(b"not a database" * 100)
    for words in (["recall", "sister"], ["remember", "x is y"], ["goal"], ["forget", "sister"]):
        ran = knowing.process(*words)
        assert ran.exit != 0 and "brain.sqlite3" in ran.err and "Traceback" not in ran.err
    store.write_bytes(whole)
    if os.getuid():
        store.parent.chmod(0o500)
        ran = knowing.process("remember", "x is y")
        store.parent.chmod(0o700)
        assert ran.exit != 0 and ("cannot" in ran.err or "readonly" in ran.err)


def test_two_processes_that_remember_at_once_lose_nothing(knowing: Command):
    code = (
        "import sys; from runtime.api.fractal import Fractal\n"
        "from runtime.api.knowledge import remember\n"
        "[remember(Fractal('.'), f'shelf {sys.argv[1]}{n} holds {n} jars') for n in range(5)]"
    )
    both = [
        Process([sys.executable, "-c", code, name], cwd=knowing.folder, env=environment()) for name in "ab"
    ]
    assert [each.wait(60) for each in both] == [0, 0]
    assert len(json.loads(knowing("recall", "shelf jars", "--limit", "50", "--json").out)) == 10


def test_a_run_without_a_model_remembers_and_is_asked(knowing: Command):
    ran = knowing("run", "-q", "remember that Bruno is our dog")
    assert ran.exit == 0 and ran.out == "Remembered: Bruno is our dog\n"
    asked = knowing("run", "-q", "what do you know about Bruno?")
    assert asked.exit == 0 and asked.out.startswith("- Bruno is our dog (said by you, ")
    asked = knowing("run", "-q", "what do you know about our parrot?")
    assert asked.exit == 7 and asked.out.startswith("I know nothing about that\n")


def test_a_run_answers_a_question_from_memory_and_no_other(knowing: Command):
    ran = knowing("run", "-q", "when is my sister's birthday?")
    assert ran.exit == 0 and ran.out.startswith("- my sister's birthday is 4 May (said by you, ")
    ran = knowing("run", "-q", "who is the president of France?")
    assert ran.exit == 7 and ran.out.startswith("I know nothing about that\nThere is no model to ask")
    ran = knowing("run", "-q", "when is my brother's birthday?")
    assert ran.exit == 7 and ran.out.startswith("Memory is not certain. What it has:\n- my sister's birthday")
    assert knowing("run", "-q", "what is 2+2").out == "4\n"


def test_what_is_only_near_a_question_is_no_answer(knowing: Command):
    ran = knowing("recall", "what", "does", "my", "sister", "weigh?")
    assert ran.exit == 0 and "Memory is not certain. What it has:" in ran.err
    assert all(line.startswith(("perhaps: ", "  ")) for line in ran.out.splitlines())
    assert all(
        each["perhaps"] for each in json.loads(knowing("recall", "what does my sister weigh?", "--json").out)
    )


@pytest.mark.parametrize("task", ["do the other report", "have a look at the report, would you"])
def test_work_that_is_worded_like_a_question_waits_for_a_person(knowing: Command, task: str):
    ran = knowing("run", task)
    assert ran.exit == 6 and "I know nothing" not in ran.out


def test_the_tools_pass_their_samples_and_leave_memory_alone(knowing: Command):
    before = json.loads(knowing("brain", "check", "--json").out)["records"]
    ran = knowing("tools", "test", "recall", "remember", "goal", "wander")
    assert ran.exit == 0 and ran.out.count("passed") == 4
    assert json.loads(knowing("brain", "check", "--json").out)["records"] == before


def test_what_is_staged_is_not_recalled_until_it_is_approved(knowing: Command):
    guide = knowing.folder / "guide.txt"
    guide.write_text("The pump needs 42 litres of oil.\n\nThe boiler closes at 90 degrees.\n")
    assert knowing("remember", "--staged", "--file", "guide.txt").exit == 0
    assert knowing("dream").exit == 0
    assert "I know nothing" in knowing("recall", "how much oil does the pump need").err
    (pump,) = json.loads(knowing("recall", "--staged", "oil of the pump", "--limit", "1", "--json").out)
    assert (pump["text"], pump["source"]) == ("The pump needs 42 litres of oil.", "file:guide.txt")
    assert "2 things read" in knowing("review").err
    assert knowing("remember", "--approve", pump["id"][:8]).exit == 0
    assert "42 litres" in knowing("recall", "how much oil does the pump need").out
    assert knowing("forget", pump["id"], "--yes").exit == 0
    assert "I know nothing" in knowing("recall", "how much oil does the pump need").err
    assert [each["text"] for each in json.loads(knowing("recall", "--staged", "--json").out)] == [
        "The boiler closes at 90 degrees."
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["remember", "--approve", "abc"], "nothing that was read"),
        (["remember", "--staged", "the key is AKIAABCDEFGHIJKLMNOP"], "has a secret"),
        (["remember", "--source", "x", "a fact"], "--source needs --staged"),
        (["remember", "--staged", "--who", "Ann", "a fact"], "--staged goes with"),
        (["recall"], "say what to recall"),
    ],
)
def test_what_staging_cannot_do_says_why(knowing: Command, words: list[str], reason: str):
    ran = knowing(*words)
    assert ran.exit != 0 and reason in ran.err
