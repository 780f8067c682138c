"""`python -m bench facts`: the lines are sound, changes are found, and mistakes are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import facts
from bench.__main__ import bench
from bench.harness import CachedEmbedder
from kernel.errors import UsageError
from runtime.memory.embed.lexical import Lexical

LINES = [
    {
        "kind": "value",
        "before": "The rent is 900 euros.",
        "after": "The rent is 950 euros.",
        "supersedes": True,
    },
    {
        "kind": "move",
        "before": "The fee is 5 euros.",
        "after": "The fee is 8 euros.",
        "supersedes": True,
    },
    {
        "kind": "wish",
        "before": "The car is a Golf.",
        "after": "I wish the car were red.",
        "supersedes": False,
    },
    {
        "kind": "none",
        "before": "Tea is hot.",
        "after": "The shop has moved from Bonn to Kiel.",
        "supersedes": True,
    },
]


def test_there_are_enough_lines_of_each_kind() -> None:
    found = facts.lines()
    for wanted in (True, False):
        some = [line for line in found if line["supersedes"] is wanted]
        assert len(some) >= 300
        assert len({line["kind"] for line in some}) >= 12
    assert len({(line["before"], line["after"]) for line in found}) == len(found)


def test_a_line_is_played_among_other_facts() -> None:
    embedder = CachedEmbedder(Lexical())
    played = [facts.play(line, ["The cat is called Miso."], embedder) for line in LINES]
    assert [each["superseded"] for each in played] == [True, True, False, False]
    assert not any(each["others"] or each["merged"] for each in played)


def test_the_command_counts_what_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)), "utf-8")
    ran = CliRunner().invoke(bench, ["facts", "--data", str(path)])
    assert ran.exit_code == 0
    assert "| lexical | value | 1 | 100.0% |" in ran.stdout
    assert "| lexical | move | 1 | 100.0% |" in ran.stdout
    assert "goal missed: lexical: 66.7% superseded; the goal is 95%" in ran.stderr


def test_a_model_closes_what_no_rule_sees(tmp_path: Path) -> None:
    reply = {"why": "candesartan took the place of ramipril", "ended": [1]}
    script = tmp_path / "replies.json"
    script.write_text(json.dumps([{"phase": "supersede", "prompt": "candesartan", "reply": reply}]), "utf-8")
    (tmp_path / "fractal.yaml").write_text(f"model: scripted:{script}\n", "utf-8")
    line = {
        "kind": "replace",
        "before": "I take ramipril for my blood pressure.",
        "after": "The cough is gone since my doctor put me on candesartan.",
        "supersedes": True,
    }
    path = tmp_path / "facts.jsonl"
    path.write_text(json.dumps(line), "utf-8")
    rules = CliRunner().invoke(bench, ["facts", "--data", str(path)])
    assert "| lexical | all | 1 | 0.0% |" in rules.stdout
    ran = CliRunner().invoke(bench, ["facts", "--data", str(path), "--model-of", str(tmp_path)])
    assert "| lexical | all | 1 | 100.0% |" in ran.stdout


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("model: reflex\n", "utf-8")
    with pytest.raises(UsageError, match="names no model"):
        facts.measure(folder=tmp_path)


@pytest.mark.parametrize("line", ["not json", "[]", "{}", '{"kind": "x", "before": "", "after": "b"}'])
def test_an_invalid_line_is_reported_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text(f"\n{line}\n", "utf-8")
    with pytest.raises(UsageError, match=r"facts\.jsonl:2: "):
        facts.lines(path)
