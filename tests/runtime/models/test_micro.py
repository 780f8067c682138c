"""A small model that is asked in small questions: which ones, and what is made of its replies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playing import Played, limited, player, put

from kernel.asking.responder import Ask, Questioner, ReplyForm
from kernel.errors import Exit
from runtime.api.fractal import Fractal, shipped_system
from runtime.api.knowledge import remember
from runtime.models.human import Human
from runtime.models.micro.micro import Micro
from runtime.models.scripted import Scripted, When

NOTES = "# Harbour\n\nBudget was raised to 42,000 euros.\n"
CALC = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
SALES = "region,revenue\nnorth,1200\nsouth,3400\n"
SETTINGS = '{\n  "name": "shop",\n  "mail": {\n    "port": 25,\n    "tls": false\n  }\n}\n'
LEXICAL = {"embedder": "lexical"}


QUICK = "[pytest]\naddopts = " + " ".join(
    f"-p no:{each}" for each in ("hypothesispytest", "anyio", "asyncio", "xdist", "timeout", "pytest_cov")
)
"""A pytest without plugins, which take ten times as long to load as a test of a function."""


class Small:
    """A scripted small model in a folder."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.model = Scripted([])

    def play(self, replies: Any, task: str, attempts: int = 4, above: Any = None, **options: Any) -> Played:
        self.model = Scripted(replies, "small")
        rungs = [
            Micro(self.model, [shipped_system()], attempts=attempts),
            *([above] if above else []),
            Human(),
        ]
        return player(self.work)(rungs, task, **options)

    @property
    def asked(self) -> list[Ask]:
        return self.model.asks


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "work")


def stop(ask: Ask) -> str:
    raise asyncio.CancelledError


def in_block(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}```"


# ---- questions -------------------------------------------------------------------------------------------


def test_a_question_about_a_file_takes_one_call_with_that_file_alone(small: Small):
    put(small.work, "notes.md", NOTES)
    put(small.work, "other.md", "nothing of interest")
    played = small.play(["It is 42,000 euros."], "According to notes.md, how high is the budget?")
    assert (played.result.status, played.result.output) == ("complete", "It is 42,000 euros.")
    assert len(small.asked) == 1
    assert "42,000" in small.asked[0].user
    assert "nothing of interest" not in small.asked[0].user


def test_the_guidance_of_a_folder_takes_no_room_in_a_small_models_questions(small: Small):
    put(small.work, "notes.md", NOTES)
    put(small.work, "AGENTS.md", "Answer in French.\n")
    small.play(["It is 42,000 euros."], "According to notes.md, how high is the budget?")
    assert small.asked and not any("French" in ask.system + ask.user for ask in small.asked)


def test_a_number_that_nothing_shows_is_refused_and_computed_instead(small: Small):
    put(small.work, "notes.md", NOTES)
    played = small.play(["It is 43,500 euros."] * 4, "According to notes.md, how high is the budget?")
    assert played.result.status == "waiting"
    assert "numbers that nothing shows: 43500" in played.root.section(2).folds[0].notes[-1].text or any(
        "43500" in note.text for fold in played.root.section(2).folds for note in fold.notes
    )


def test_an_answer_from_knowledge_takes_one_call_and_is_marked(small: Small):
    played = small.play(["Paris."], "What is the capital of France?")
    assert (played.result.status, played.result.output) == ("unverified", "Paris.")
    assert played.result.exit == Exit.ACCEPTED
    assert "knowledge" in played.root.text(2, "approach")


def test_a_question_about_a_table_is_a_query_that_a_program_must_confirm(small: Small):
    put(small.work, "sales.csv", SALES)
    program = "import csv\nprint(sum(int(row['revenue']) for row in csv.DictReader(open('sales.csv'))))\n"
    replies = ["SELECT SUM(revenue) FROM sales", in_block(program), "It is 4600."]
    played = small.play(replies, "What is the total revenue in sales.csv?")
    assert (played.result.status, played.result.output) == ("complete", "It is 4600.")
    assert 'Table "sales", 2 rows' in small.asked[0].user
    assert "3400" in small.asked[0].user  # the range of the column, not the rows
    assert "south,3400" not in small.asked[0].user


def test_queries_that_never_agree_go_up_with_what_was_tried(small: Small):
    put(small.work, "sales.csv", SALES)
    replies = ["SELECT 1", in_block("print(2)\n"), "SELECT 3", in_block("print(4)\n")]
    played = small.play(replies, "What is the total revenue in sales.csv?")
    assert played.result.status == "waiting"
    tried = [
        note.text for fold in played.root.section(2).folds for note in fold.notes if note.key == "learned"
    ]
    assert len(tried) == 4
    assert "no two programs" in tried[-1]


def test_an_answer_that_changes_the_number_of_a_program_is_replaced_by_its_output(small: Small):
    put(small.work, "sales.csv", SALES)
    replies = ["SELECT SUM(revenue) FROM sales", in_block("print(4600)\n"), "It is 46,000."]
    played = small.play(replies, "What is the total revenue in sales.csv?")
    assert "4600" in played.result.output
    assert "46,000" not in played.result.output


# ---- files -----------------------------------------------------------------------------------------------


def test_a_bug_is_fixed_once_the_named_test_passes(small: Small):
    put(small.work, "calc.py", CALC)
    put(small.work, "test_calc.py", TEST)
    put(small.work, "pytest.ini", QUICK)
    replies = [in_block(CALC), in_block(CALC.replace("-", "*")), in_block(CALC.replace("-", "+"))]
    played = small.play(replies, "test_calc.py fails. Fix calc.py so that the tests pass.")
    assert played.result.status == "complete"
    assert (small.work / "calc.py").read_text() == CALC.replace("-", "+")
    assert (small.work / "test_calc.py").read_text() == TEST
    assert [ask.sample for ask in small.asked] == [0, 1, 2]
    assert "assert add(2, 3) == 5" in small.asked[0].user


def test_a_failed_attempt_leaves_no_trace(small: Small):
    put(small.work, "calc.py", CALC)
    put(small.work, "test_calc.py", TEST)
    put(small.work, "pytest.ini", QUICK)
    wrong = in_block("def add(a, b):\n    return 0\n")
    played = small.play([wrong] * 2, "test_calc.py fails. Fix calc.py so that the tests pass.", attempts=2)
    assert played.result.status == "waiting"
    assert (small.work / "calc.py").read_text() == CALC


@pytest.mark.night
def test_what_the_small_model_cannot_show_goes_to_the_next_rung_with_what_was_tried(small: Small):
    put(small.work, "calc.py", CALC)
    put(small.work, "test_calc.py", TEST)
    put(small.work, "pytest.ini", QUICK)
    fix = {"path": "calc.py", "content": CALC.replace("-", "+")}
    plan = {
        "task": "fix calc.py",
        "approach": "rewrite",
        "confidence": "high",
        "steps": [{"tool": "write", "args": fix}],
        "success": [{"run": "python3 -m pytest -q -p no:cacheprovider test_calc.py"}],
    }
    accept = {"validation": "pass", "decision": "ACCEPT", "output": "fixed"}
    large = Scripted([When("plan", reply=plan), When("check", reply=accept)], "large")
    wrong = in_block("def add(a, b):\n    return 0\n")
    task = "test_calc.py fails. Fix calc.py so that the tests pass."
    played = small.play([wrong] * 2, task, attempts=2, above=large)
    assert (played.result.status, played.result.output) == ("complete", "fixed")
    assert "assert 0 == 5" in large.asks[0].user


def test_a_settings_file_is_changed_by_its_values_and_else_rewritten(small: Small):
    put(small.work, "settings.json", SETTINGS)
    changed = SETTINGS.replace("25", "587").replace("false", "true")
    values = "mail.port = 587\nmail.tls = true"
    same = ["mail.port = 25", in_block(SETTINGS, "json"), in_block(changed, "json")]
    for replies in ([values], same):
        put(small.work, "settings.json", SETTINGS)
        played = small.play(replies, "Set the mail port in settings.json to 587 with TLS.")
        assert played.result.status == "unverified"
        assert (small.work / "settings.json").read_text() == changed
        assert "mail.port = 25" in small.asked[0].user


def test_a_new_program_is_tried_with_the_example_of_the_task(small: Small):
    task = "Write double.py: `python3 double.py 4` prints 8, and so on for any number."
    replies = [
        in_block("import sys\n\nprint(int(sys.argv[1]) * 3)\n"),
        in_block("import sys\n\nprint(int(sys.argv[1]) * 2)\n"),
    ]
    played = small.play(replies, task)
    assert played.result.status == "complete"
    assert "* 2" in (small.work / "double.py").read_text()


def test_a_new_file_that_is_not_what_its_ending_says_is_written_again(small: Small):
    replies = [in_block("{'a': 1}\n", "json"), in_block('{"a": 1}\n', "json")]
    played = small.play(replies, "Create a file a.json with the key a and the value 1.")
    assert played.result.status == "unverified"
    assert (small.work / "a.json").read_text() == '{"a": 1}\n'


def test_code_that_gets_lost_in_a_rewrite_is_noticed(small: Small):
    text = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    put(small.work, "counts.py", text)
    whole = text.replace("return 1", '"""One."""\n    return 1')
    replies = [in_block('def one():\n    """One."""\n    return 1\n'), in_block(whole)]
    small.play(replies, "Add a docstring to the function one in counts.py.")
    assert (small.work / "counts.py").read_text() == whole


def test_a_number_is_told_without_the_noise_of_binary_fractions(small: Small):
    put(small.work, "prices.csv", "item,price\na,0.1\nb,0.2\n")
    query, program = "```sql\nSELECT SUM(price) FROM prices\n```", in_block("print(0.1 + 0.2)\n")
    played = small.play([query, program, "0.3"], "What is the total of the prices in prices.csv?")
    assert (played.result.status, played.result.output) == ("complete", "0.3")


def test_files_are_arranged_by_a_program_that_a_second_one_confirms(small: Small):
    for name in ("a.jpeg", "b.jpeg", "c.png"):
        put(small.work, f"photos/{name}", "x")
    program = (
        "from pathlib import Path\n"
        "for each in Path('photos').glob('*.jpeg'):\n"
        "    each.rename(each.with_suffix('.jpg'))\n"
    )
    played = small.play(
        [in_block(program)] * 2, "Rename all the pictures in photos that end in .jpeg to .jpg."
    )
    assert played.result.status == "unverified"  # two samples of one model may share an error
    assert "two programs of the same model" in played.result.reason
    assert sorted(each.name for each in (small.work / "photos").iterdir()) == ["a.jpg", "b.jpg", "c.png"]


def test_a_task_that_no_rule_reads_is_a_choice_of_the_model(small: Small):
    put(small.work, "notes.md", NOTES)
    replies = [When(prompt="One letter", reply="A"), When(reply="The budget is 42,000 euros.")]
    small.play(replies, "The budget, please.")
    assert small.asked[0].form.kind == "choice"
    assert small.asked[0].form.options == ("A", "B", "C", "D")


# ---- the record ------------------------------------------------------------------------------------------


def test_each_question_is_logged_charged_and_shown(small: Small):
    put(small.work, "notes.md", NOTES)
    played = small.play(["42,000."], "According to notes.md, how high is the budget?")
    assert played.result.spent["calls"] == 1
    asked = [rung for rung in played.root.meta.rungs if rung.get("calls")]
    assert [(rung["phase"], rung["rung"]) for rung in asked] == [("check", "small")]
    log = (played.folder / "calls.jsonl").read_text()
    assert log.count('"kind": "replied"') == 1


def test_an_interrupted_run_asks_no_answered_question_again(small: Small):
    put(small.work, "sales.csv", SALES)
    task = "What is the total revenue in sales.csv?"
    query = "SELECT SUM(revenue) FROM sales"
    first = small.play([When(reply=query, times=1), When(reply=stop)], task)
    assert first.result.status == "interrupted"
    played = small.play([in_block("print(4600)\n"), "4600."], task, resume=first.result.run)
    assert (played.result.status, played.result.output) == ("complete", "4600.")
    assert len(small.asked) == 2


def test_instructions_of_a_question_are_short():
    folder = Path(__file__).parents[3] / "system" / "phases" / "micro"
    for path in folder.glob("*.md"):
        assert len(path.read_text().split()) <= 45, path.name


def test_a_replay_asks_the_recorded_questions(small: Small):
    put(small.work, "notes.md", NOTES)
    played = small.play(["It is 42,000 euros."], "According to notes.md, how high is the budget?")
    again = asyncio.run(played.fractal.replay(played.result.run))
    assert (again.status, again.output) == ("complete", "It is 42,000 euros.")


def test_the_next_question_can_be_looked_at(small: Small):
    put(small.work, "sales.csv", SALES)
    task = "What is the total revenue in sales.csv?"
    played = small.play([When(reply=stop)], task)
    phase, prompt = played.fractal.prompt(played.result.id)
    assert phase == "do"
    assert prompt.user == small.asked[0].user


def test_pieces_of_a_reply_reach_the_listener(small: Small):
    put(small.work, "notes.md", NOTES)

    def answer(ask: Ask) -> str:
        ask.on_text("It is ")
        return "It is 42,000."

    played = small.play([When(reply=answer)], "According to notes.md, how high is the budget?")
    deltas = [event.data for event in played.events if event.kind == "reply_delta"]
    assert deltas == [{"phase": "check", "step": 0, "rung": "small", "text": "It is "}]


def test_a_value_that_only_the_person_knows_is_asked_for_not_made_up(small: Small):
    put(small.work, "contact.md", "# Contact\n\nMobile: 0151 2345\n")
    made_up = "# Contact\n\nMobile: 0176 99887766\n"
    right = "# Contact\n\nMobile: 0152 2361\n"
    task = "I have a new mobile number, please put it into contact.md."
    played = small.play([made_up, made_up], task)
    assert played.result.status == "waiting"
    assert "What should be written in contact.md?" in played.result.question
    assert (small.work / "contact.md").read_text() == "# Contact\n\nMobile: 0151 2345\n"
    played.fractal.tell(played.result.run, "answer", text="My new number is 0152 2361.")
    again = small.play([right], task, resume=played.result.run)
    assert again.result.status == "unverified"
    assert (small.work / "contact.md").read_text() == right
    assert "0152 2361" in small.asked[0].user


def test_an_answer_from_parts_of_a_long_file_is_unverified(small: Small):
    lines = [f"2024-01-{day:02} reading {day} of the meter was taken by Kim" for day in range(1, 29)] * 8
    put(small.work, "log.txt", "\n".join([*lines, "2024-02-01 the pump was replaced by Joana"]) + "\n")
    played = small.play(["Joana replaced the pump."], "Who replaced the pump, according to log.txt?")
    assert played.result.status == "unverified"
    assert "replaced by Joana" in small.asked[0].user
    assert len(small.asked[0].user) < 4_000


def test_a_small_model_for_some_phases_is_still_asked_in_small_questions():
    assert isinstance(limited(Micro(Scripted([], "small"), []), phases=["plan", "do"]), Questioner)


def test_a_reply_that_was_cut_off_is_not_written(small: Small):
    replies = [When(reply="# Half of", truncated=True, times=1), When(reply="# All of it")]
    small.play(replies, "Write a poem about rivers into poem.md.")
    assert (small.work / "poem.md").read_text() == "# All of it\n"


def test_a_choice_in_a_sentence_is_understood():
    form = ReplyForm("choice", ("a.py", "b.py"))
    assert [form.chosen(text) for text in ("b.py", "It is b.py.", "neither")] == ["b.py", "b.py", "a.py"]


def test_a_query_is_not_confirmed_by_another_query(small: Small):
    put(small.work, "sales.csv", SALES)
    wrong = "SELECT COUNT(revenue) FROM sales"
    replies = [wrong, in_block("print(4600)\n"), wrong, in_block("print(4601)\n")]
    assert small.play(replies, "What is the total revenue in sales.csv?").result.status == "waiting"


# ---- what memory has -------------------------------------------------------------------------------------

TOLD = ("Marit leads the harbour project since 3 March 2026.", "Ann plays the cello in the choir.")


@pytest.fixture
def told(small: Small) -> Small:
    """A small model in a folder whose memory has two facts."""
    small.work.mkdir()
    fractal = Fractal(small.work, settings={"embedder": "lexical", "fsync": False})
    for fact in TOLD:
        remember(fractal, fact)
    return small


def test_a_question_about_the_persons_world_is_answered_from_memory_with_the_fact(told: Small):
    played = told.play(["Marit leads the project."], "Who is leading the project?", settings=LEXICAL)
    first, second = played.result.output.splitlines()
    assert first == "Marit leads the project." and second.startswith(f"- {TOLD[0]} (since 3 March")
    assert played.result.status == "unverified" and "memory" in played.root.text(2, "approach")
    (asked,) = told.asked
    assert TOLD[0] in asked.user and "today is" in asked.user
    assert "cello" not in asked.user and len(asked.user) < 400


@pytest.mark.parametrize(
    "reply",
    [
        "John Doe leads the project.",
        "Not known.",
        "Marit, since 14 March 1998.",
        "The cello.",
        "Marit does not lead it.",
        "",
    ],
)
def test_what_no_fact_says_is_no_answer_and_memory_is_shown(told: Small, reply: str):
    played = told.play([reply], "Who is leading the project?", settings=LEXICAL)
    assert "John" not in played.result.output and "1998" not in played.result.output
    assert (played.result.status, played.result.exit) == ("unanswered", 7)
    assert TOLD[0] in played.result.output
    assert "not certain" in played.result.output or "I know nothing about that" in played.result.output


@pytest.mark.parametrize(
    "task", ["Who leads the project?", "Where does my sister live?", "Tell me our deadline"]
)
def test_where_memory_has_nothing_the_run_says_so_and_no_model_is_asked(small: Small, task: str):
    played = small.play(["John Doe."], task, settings=LEXICAL)
    assert small.asked == [] and "I know nothing about that" in played.result.output


def test_a_fact_makes_a_question_with_its_name_one_about_the_persons_world(told: Small):
    played = told.play(["Ann plays the cello."], "When is the birthday of Ann?", settings=LEXICAL)
    assert (played.result.status, played.result.exit, len(told.asked)) == ("unanswered", 7, 1)
    first, near = played.result.output.splitlines()
    assert first.startswith("Memory is not certain") and near.startswith(f"- perhaps: {TOLD[1]} (said by you")


@pytest.mark.parametrize(
    "task", ["What is the capital of France?", "How do I learn the cello?", "Tell me who wrote the Iliad."]
)
def test_other_questions_are_answered_from_knowledge(told: Small, task: str):
    played = told.play(["As everybody knows."], task, settings=LEXICAL)
    assert played.result.output == "As everybody knows." and "knowledge" in played.root.text(2, "approach")


def test_a_task_that_tells_its_premises_is_computed(told: Small):
    task = "I have 12 eggs in the kitchen and use 5 of them, how many do I have?"
    played = told.play(["7"], task, settings=LEXICAL)
    assert played.result.output == "7"
