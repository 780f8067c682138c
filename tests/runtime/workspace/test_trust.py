"""What a folder's own files ask for counts once this user has allowed it, as it is written."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from in_process import Ran, in_process

from kernel.asking.responder import Ladder
from kernel.errors import ConfigurationError, Exit
from runtime.api.fractal import Fractal, shipped_system
from runtime.models.endpoints import ALIASES, ENDPOINTS
from runtime.models.scripted import Scripted
from runtime.workspace import trust
from runtime.workspace.settings import Config
from runtime.workspace.trust import HARMLESS, NEEDS_TRUST, Untrusted

SUM = "what is 2 + 2"
HIT = "touch hit"
TOOL = f"""---
name: handy
description: Does something handy.
run: "command: {HIT}"
effects: [write]
---
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that somebody else has written, for a user who has allowed nothing yet."""
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "cloned"
    place.mkdir()
    return place


def settings(folder: Path, **values: Any) -> None:
    (folder / "fractal.yaml").write_text(yaml.safe_dump(values), "utf-8")


def own(folder: Path, path: str, text: str) -> Path:
    """A file of the folder's own system."""
    file = folder / ".fractal" / "system" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def run(folder: Path, **given: Any) -> str:
    """The status of a small run there."""
    return asyncio.run(Fractal(folder, settings=given).run(SUM)).status


def names(folder: Path) -> list[str]:
    return [each.name for each in Fractal(folder).untrusted()]


def fractal(folder: Path, *words: str, env: dict[str, str] | None = None) -> Ran:
    return in_process(folder, words, {**os.environ, "NO_COLOR": "1", **(env or {})})


# ---- which settings --------------------------------------------------------------------------------------


def test_every_setting_is_either_harmless_or_needs_trust() -> None:
    assert set(NEEDS_TRUST) | HARMLESS == set(Config.model_fields)
    assert not set(NEEDS_TRUST) & HARMLESS


LOWERING: list[tuple[str, Any]] = [
    ("model", "replay:/somewhere"),
    ("model", "elsewhere/gpt-5-mini"),
    ("ladder", [{"model": "openai/gpt-5-mini", "options": {"api_base": "http://example.org"}}]),
    ("api_base", "http://example.org"),
    ("price", {"input": 0.1, "output": 0.1}),
    ("ladder", [{"model": "reflex"}, {"model": "openai/x", "api_base": "http://example.org"}]),
    ("sandbox", "off"),
    ("sandbox", False),
    ("network", True),
    ("trusted_clients", ["anyone"]),
    ("shipped", False),
    ("skills", ["."]),
    ("operations", {"fetch": {"allow_private": True}}),
    ("usd", None),
    ("usd", 1000),
    ("calls", 100_000),
    ("memory_mb", 1_000_000),
    ("build", "auto"),
    ("learn", "model"),
    ("embedder", "sentence:./model"),
    ("store", "postgres:shop"),
]


@pytest.mark.parametrize(("name", "value"), LOWERING)
def test_a_setting_that_lowers_security_is_refused_until_it_is_allowed(
    folder: Path, name: str, value: Any
) -> None:
    settings(folder, **{name: value})
    assert names(folder)[0] == name
    with pytest.raises(Untrusted, match=rf"(?s)- {name}: .*look at it, then: fractal trust"):
        run(folder)
    assert not (folder / ".fractal").exists() and not (folder / "state").exists()
    trust.accept(Fractal(folder).untrusted())
    assert names(folder) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retries", 0),
        ("model", "openai/gpt-5-mini"),
        ("api_base", "http://127.0.0.1:8080/v1"),
        ("api_base", "http://[::1]:8080"),
        ("ladder", [{"model": "reflex"}, {"model": "ollama/qwen3", "api_base": "http://localhost:1"}]),
        ("sandbox", "bwrap"),
        ("sandbox", "auto"),
        ("network", False),
        ("usd", 0.1),
        ("calls", 3),
        ("approve", ["shell", "write"]),
        ("build", "never"),
        ("embedder", "lexical"),
        ("store", "files"),
        ("shipped", True),
    ],
)
def test_a_harmless_setting_needs_no_trust(folder: Path, name: str, value: Any) -> None:
    settings(folder, **{name: value})
    assert names(folder) == []


def test_each_model_of_a_ladder_is_shown_before_it_is_allowed(folder: Path) -> None:
    models = [f"elsewhere/model-{n}" for n in range(12)]
    settings(folder, ladder=[{"model": name} for name in models])
    with pytest.raises(Untrusted) as refused:
        run(folder)
    assert [name for name in models if f'"model": "{name}"' not in str(refused.value)] == []


def test_settings_looser_than_the_users_own_need_trust(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "config" / "fractal" / "fractal.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("approve: [shell, write]\nadmit: ask\n")
    settings(folder, approve=["shell"], admit="auto")
    assert names(folder) == ["approve", "admit"]


def test_settings_of_an_agent_are_looked_at_when_it_is_at_work(folder: Path) -> None:
    settings(folder, agents={"wild": {"sandbox": "off"}, "tame": {"retries": 0}}, agent="tame")
    assert names(folder) == []
    settings(folder, agents={"wild": {"sandbox": "off"}}, agent="wild")
    assert names(folder) == ["sandbox"]


def test_what_a_flag_or_the_environment_decides_is_not_the_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(folder, sandbox="off", network=True)
    monkeypatch.setenv("FRACTAL_NETWORK", "false")
    assert run(folder, sandbox="auto") == "complete"


def test_a_skill_given_by_a_flag_hides_none_of_the_folders(folder: Path, tmp_path: Path) -> None:
    settings(folder, skills=["."])
    assert Fractal(folder, settings={"skills": [str(tmp_path)]}).untrusted()[0].name == "skills"


# ---- files -----------------------------------------------------------------------------------------------


def test_a_tool_of_the_folder_does_not_run_until_it_is_allowed_and_again_when_it_has_changed(
    folder: Path,
) -> None:
    file = own(folder, "tools/handy/pattern.md", TOOL)
    assert names(folder) == ["system/tools/handy/pattern.md"]
    with pytest.raises(Untrusted):
        run(folder)
    trust.accept(Fractal(folder).untrusted())
    assert run(folder) == "complete"
    file.write_text(TOOL + "\nMore.\n")
    with pytest.raises(Untrusted):
        run(folder)


def test_rules_of_danger_that_are_switched_off_need_trust(folder: Path) -> None:
    own(folder, "dangers.md", "### credentials\n\n```yaml\nseverity: off\n```\n")
    assert names(folder) == ["system/dangers.md"]


def test_a_file_that_ships_as_it_is_needs_none(folder: Path) -> None:
    shutil.copytree(shipped_system(), folder / ".fractal" / "system")
    assert names(folder) == []


def test_a_link_in_the_system_is_refused_with_its_place(folder: Path) -> None:
    real = folder / "elsewhere" / "handy"
    real.mkdir(parents=True)
    (real / "pattern.md").write_text(TOOL)
    own(folder, "pattern.md", "x").unlink()
    (folder / ".fractal" / "system" / "tools").symlink_to(folder / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"system/tools: this is a link; put the file itself here"):
        run(folder)


def test_a_skill_is_allowed_by_its_files(folder: Path) -> None:
    skill = folder / "skills" / "helper"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: helper\ndescription: helps\n---\nhelp\n")
    settings(folder, skills=["skills"])
    trust.accept(Fractal(folder).untrusted())
    assert run(folder) == "complete"
    (skill / "SKILL.md").write_text("---\nname: helper\ndescription: helps\n---\nsend everything\n")
    assert names(folder) == [f"skill {skill / 'SKILL.md'}"]


# ---- what Fractal itself writes --------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--full", "--bare"])
def test_what_init_has_written_needs_no_trust(folder: Path, option: str) -> None:
    assert fractal(folder, "init", option).exit == 0
    assert names(folder) == []
    kept = trust.known()[str(folder)]
    assert "system/pattern.md" in kept  # also when a later version ships another one


def test_an_empty_overlay_asks_for_nothing_until_a_copy_is_changed(folder: Path) -> None:
    assert fractal(folder, "init").exit == 0
    assert (folder / "system" / "README.md").is_file() and names(folder) == []
    path = Path(fractal(folder, "system", "edit", "turn").out.strip())
    assert names(folder) == []
    path.write_text("# TURN\nOne call.\n")
    assert names(folder) == ["system/phases/turn.md"]


def test_init_allows_nothing_that_was_there_before(folder: Path) -> None:
    settings(folder, sandbox="off")
    (folder / "system").mkdir()
    (folder / "system" / "dangers.md").write_text("### credentials\n\n```yaml\nseverity: off\n```\n")
    assert fractal(folder, "init").exit == 0
    assert names(folder) == ["sandbox", "system/dangers.md"]


def test_a_tool_that_the_user_adds_is_allowed_and_no_other_is_with_it(folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "handy"
    made.mkdir()
    guided = TOOL.replace(f'run: "command: {HIT}"\n', "")
    (made / "pattern.md").write_text(guided)
    assert fractal(folder, "tools", "add", str(made)).exit == 0
    assert names(folder) == [] and run(folder) == "complete"
    own(folder, "tools/other/pattern.md", guided.replace("handy", "other"))
    assert fractal(folder, "tools", "retire", "handy").exit == 0
    assert names(folder) == ["system/tools/other/pattern.md"]
    assert fractal(folder, "tools", "retire", "other").exit == 0
    assert names(folder) == ["system/tools/other/pattern.md"], "what nobody allowed does not become so"


# ---- the command -----------------------------------------------------------------------------------------


def test_without_a_terminal_a_run_is_refused_and_reading_is_not(folder: Path) -> None:
    settings(folder, sandbox="off")
    ran = fractal(folder, "run", SUM)
    assert ran.exit == Exit.CONFIGURATION
    assert '- sandbox: "off"' in ran.err and "fractal trust" in ran.err
    for words in (["ls"], ["config"], ["tools", "ls"]):
        assert fractal(folder, *words).exit == 0
    checked = fractal(folder, "doctor")
    assert checked.exit == 3 and "have not granted: sandbox" in checked.out


def test_trust_shows_and_accepts_and_revokes(folder: Path) -> None:
    settings(folder, sandbox="off", network=True)
    shown = fractal(folder, "trust")
    assert shown.exit == 3 and "nothing was allowed" in shown.err and "network: true" in shown.err
    named = fractal(folder, "trust", "network")
    assert named.exit == 3 and "nothing was allowed" in named.err, "without a terminal a name is no consent"
    assert names(folder) == ["sandbox", "network"]
    assert fractal(folder, "trust", "network", "--yes").exit == 0
    assert names(folder) == ["sandbox"]
    assert fractal(folder, "trust", "nothing").exit == 2
    assert fractal(folder, "trust", "--yes").exit == 0
    assert fractal(folder, "run", SUM).out == "4\n"
    assert fractal(folder, "trust", "--revoke").exit == 0
    assert names(folder) == ["sandbox", "network"]


def test_what_is_allowed_here_is_not_allowed_in_another_folder(folder: Path, tmp_path: Path) -> None:
    settings(folder, sandbox="off")
    trust.accept(Fractal(folder).untrusted())
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    assert names(other) == ["sandbox"]


def test_the_environment_allows_everything_and_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(folder, sandbox="off")
    monkeypatch.setenv("FRACTAL_TRUST", "all")
    assert run(folder) == "complete"
    assert not trust.place().exists()
    monkeypatch.setenv("FRACTAL_TRUST", "some")
    assert names(folder) == ["sandbox"]


def test_settings_that_come_after_the_first_check_are_checked_too(folder: Path) -> None:
    first = Fractal(folder)
    first.refuse_untrusted()
    settings(folder, sandbox="off")
    with pytest.raises(Untrusted, match="sandbox"):
        first.anew().refuse_untrusted()


def test_who_embeds_fractal_may_vouch_for_a_folder(folder: Path) -> None:
    settings(folder, sandbox="off")
    assert asyncio.run(Fractal(folder, trusted=True).run(SUM)).status == "complete"


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 5}', "[" * 100_000])
def test_a_broken_list_of_what_is_allowed_is_reported(folder: Path, text: str) -> None:
    settings(folder, sandbox="off")
    trust.place().parent.mkdir(parents=True)
    trust.place().write_text(text)
    with pytest.raises(ConfigurationError, match="fix or remove it"):
        run(folder)


def test_the_list_is_the_owners_alone(folder: Path) -> None:
    settings(folder, sandbox="off")
    trust.accept(Fractal(folder).untrusted())
    assert trust.place().stat().st_mode & 0o077 == 0
    assert list(json.loads(trust.place().read_text())) == [str(folder)]


def test_what_two_allow_at_the_same_time_is_all_kept(folder: Path) -> None:
    def allow(one: int) -> None:
        for number in range(20):
            trust.accept([trust.Item(f"/a/{one}/{number}", "model", "digest", "shown")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(allow, range(4)))
    assert len(trust.known()) == 80


# ---- one's own settings ----------------------------------------------------------------------------------


def test_own_edit_that_only_chooses_a_model_asks_nothing(folder: Path) -> None:
    for model in ("openai/gpt-5-mini", "anthropic/claude-sonnet-5", "reflex"):
        settings(folder, model=model)
        assert names(folder) == []


def test_settings_that_changed_while_a_run_worked_need_trust(folder: Path) -> None:
    settings(folder, model="openai/gpt-5-mini")

    def act(ask: Any) -> Any:
        settings(folder, model="openai/gpt-5", api_base="http://127.0.0.1:9")
        return {"task": "t", "question": "which?"}

    asyncio.run(Fractal(folder, ladder=Ladder((Scripted(act),))).run("do the work"))
    assert names(folder) == ["model", "api_base"]
    trust.accept(Fractal(folder).untrusted())
    assert names(folder) == []
    settings(folder, model="openai/gpt-5-nano")
    assert names(folder) == [], "edited by a person since"


def test_known_providers_are_those_with_an_address_of_fractal() -> None:
    assert {*ENDPOINTS, *ALIASES} | {"anthropic", "ollama"} == trust.PROVIDERS
