"""Which place decides a setting, and which workspace a folder belongs to."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.asking.responder import Ladder
from kernel.errors import ConfigurationError
from runtime.api.fractal import Fractal, shipped_system
from runtime.models.ladder import rungs
from runtime.reflexes.reflex import Reflex
from runtime.workspace.settings import load, misspelt

LADDER = "ladder: [{model: mailbox}]\n"


def _models(root: Path, **flags: object) -> list[str]:
    return [rung.model for rung in rungs(load(root, flags)[0])]


def test_the_model_of_a_flag_holds_before_the_ladder_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text(LADDER)
    assert _models(tmp_path) == ["mailbox"]
    assert _models(tmp_path, model="openai/x") == ["reflex", "openai/x", "person"]
    assert load(tmp_path, {"model": "openai/x"})[1]["ladder"] == "default"


def test_a_store_of_an_unknown_form_is_refused_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("store: postgres:Shop_X\n")
    with pytest.raises(ConfigurationError, match=r"store: 'postgres:Shop_X' is not sqlite, files, memory or"):
        load(tmp_path, {})


def test_settings_that_contain_themselves_are_refused_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("observe: &a [*a]\n")
    with pytest.raises(ConfigurationError, match=r"fractal\.yaml: not YAML"):
        load(tmp_path, {})


def test_a_model_in_the_environment_holds_before_the_ladder_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fractal.yaml").write_text(LADDER)
    monkeypatch.setenv("FRACTAL_MODEL", "openai/x")
    assert _models(tmp_path) == ["reflex", "openai/x", "person"]
    monkeypatch.setenv("FRACTAL_LADDER", "[{model: person}]")
    assert _models(tmp_path) == ["person"], "one place that names both means its ladder"
    assert _models(tmp_path, model="openai/y") == ["reflex", "openai/y", "person"]


def test_a_ladder_holds_before_the_model_of_a_lower_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fractal.yaml").write_text("model: openai/x\n")
    monkeypatch.setenv("FRACTAL_LADDER", "[{model: mailbox}]")
    assert _models(tmp_path) == ["mailbox"]
    assert load(tmp_path, {})[0].model is None


def test_the_model_of_an_agent_holds_before_the_ladder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text(LADDER + "agents: {reviewer: {model: openai/x}}\n")
    assert _models(tmp_path, agent="reviewer") == ["reflex", "openai/x", "person"]


def test_settings_written_beside_a_workspace_are_its_settings(tmp_path: Path) -> None:
    first = asyncio.run(Fractal(tmp_path, ladder=Ladder((Reflex([shipped_system()]),))).run("what is 2+2"))
    (tmp_path / "fractal.yaml").write_text("calls: 7\nskills: [skills]\n")

    fractal = Fractal(tmp_path)
    assert fractal.workspace.root == tmp_path / ".fractal"
    assert [each.run for each in fractal.runs()] == [first.run]
    assert (fractal.config.calls, fractal.sources["calls"]) == (7, str(tmp_path / "fractal.yaml"))
    assert fractal.skills == [tmp_path / "skills"]
    assert not (tmp_path / "state").exists()


def test_settings_in_a_project_with_a_folder_called_state_are_those_of_its_workspace(tmp_path: Path) -> None:
    (tmp_path / ".fractal" / "state" / "runs").mkdir(parents=True)
    (tmp_path / "state").mkdir()
    (tmp_path / "fractal.yaml").write_text("calls: 7\n")
    assert Fractal(tmp_path).workspace.root == tmp_path / ".fractal"


def test_the_file_beside_a_workspace_holds_before_the_one_inside(tmp_path: Path) -> None:
    (tmp_path / ".fractal" / "state").mkdir(parents=True)
    (tmp_path / ".fractal" / "fractal.yaml").write_text("calls: 5\ntokens: 900\n")
    (tmp_path / "fractal.yaml").write_text("calls: 7\n")
    config = Fractal(tmp_path).config
    assert (config.calls, config.tokens) == (7, 900)


def test_a_workspace_of_its_own_stays_one_when_a_hidden_one_lies_beside(tmp_path: Path) -> None:
    (tmp_path / ".fractal" / "state").mkdir(parents=True)
    (tmp_path / "state" / "runs").mkdir(parents=True)
    (tmp_path / "fractal.yaml").write_text("calls: 7\n")
    assert Fractal(tmp_path).workspace.root == tmp_path


def test_a_misspelt_variable_is_reported_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FRACTAL_CALS", "FRACTAL_CALLS", "FRACTAL_TOKEN", "FRACTAL_SOMETHING_ELSE"):
        monkeypatch.setenv(name, "3")
    assert misspelt() == {"FRACTAL_CALS": "FRACTAL_CALLS"}
    ran = subprocess.run(
        [sys.executable, "-m", "runtime.cli", "-C", str(tmp_path), "config", "calls"],
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert json.loads(ran.stdout) == 3
    assert "unknown variable FRACTAL_CALS is ignored; did you mean FRACTAL_CALLS?" in ran.stderr


def test_the_asks_of_a_rung_have_earlier_names_too(tmp_path: Path) -> None:
    """UNDERSTAND and PLAN were asked for one by one before they became the turn."""
    rung = "{model: mailbox, phases: [understand, plan, check]}"
    (tmp_path / "fractal.yaml").write_text(f"ladder: [{rung}]\n")
    config, _ = load(tmp_path, {})
    assert [each.phases for each in config.ladder] == [("turn", "check")]
