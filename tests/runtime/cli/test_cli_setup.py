"""init, doctor, config, tools, completion, and what a person says to a run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from command_line import ASKS, RUN, Command
from llm_server import LlmServer

from runtime.api.fractal import shipped_system

FACTS = (
    "python",
    "settings",
    "workspace",
    "sandbox",
    "ladder",
    "model",
    "litellm",
    "tools",
    "git",
    "terminal",
)


def _checks(fractal: Command, **env: str) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(fractal("doctor", "--json", env=env).out)}


def test_doctor_says_of_each_thing_what_is_there_and_what_to_do(fractal: Command) -> None:
    ran = fractal("doctor")
    assert ran.exit == 0
    for name in FACTS:
        assert name in ran.out
    checks = _checks(fractal)
    assert sys.executable in checks["python"]["found"]
    assert checks["model"]["state"] == "missing" and "FRACTAL_MODEL" in checks["model"]["fix"]
    assert all(each["fix"] for each in checks.values() if each["state"] == "broken")


def test_doctor_never_prints_a_key(fractal: Command) -> None:
    ran = fractal("doctor", env={"OPENAI_API_KEY": "sk-very-secret-indeed"})
    assert "OPENAI_API_KEY is set" in ran.out
    assert "very-secret" not in ran.out + ran.err


def test_doctor_says_which_key_a_model_lacks(fractal: Command) -> None:
    checks = _checks(fractal, FRACTAL_MODEL="anthropic/claude-sonnet-4-5")
    assert checks["model"]["state"] == "broken"
    assert checks["model"]["fix"] == "set ANTHROPIC_API_KEY in the environment"
    assert fractal("doctor", env={"FRACTAL_MODEL": "anthropic/claude-sonnet-4-5"}).exit == 3


def _programs(fractal: Command, *names: str) -> Path:
    """A folder with these programs and nothing else: no bwrap, no git."""
    folder = fractal.folder / "programs"
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def test_doctor_tries_the_sandbox(fractal: Command) -> None:
    checks = _checks(fractal, PATH=str(_programs(fractal, "bash", "echo")))
    assert checks["sandbox"]["state"] == "missing" and "bubblewrap" in checks["sandbox"]["found"]
    assert checks["git"]["state"] == "missing"
    off = _checks(fractal, FRACTAL_SANDBOX="'off'")
    assert off["sandbox"]["state"] == "missing" and "without one" in off["sandbox"]["found"]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_doctor_says_that_a_command_ran_in_the_sandbox(fractal: Command) -> None:
    found = _checks(fractal)["sandbox"]
    assert found["state"] == "missing" or found["found"].startswith("bwrap, a command ran in it")


def test_doctor_names_a_wrong_setting_and_a_broken_tool(fractal: Command) -> None:
    operations = fractal.folder / ".fractal" / "system" / "operations"
    operations.mkdir(parents=True)
    (fractal.folder / ".fractal" / "state").mkdir()
    (operations / "mine.md").write_text("---\nname: mine\n---\n", "utf-8")
    assert "mine.md:1: description is missing" in _checks(fractal)["tools"]["found"]
    ran = fractal("doctor", env={"FRACTAL_RETRIES": "many"})
    assert ran.exit == 3
    assert "FRACTAL_*: retries" in ran.out


def test_config_says_where_each_setting_comes_from(fractal: Command, tmp_path: Path) -> None:
    own = tmp_path / "xdg" / "fractal"
    own.mkdir(parents=True)
    (own / "fractal.yaml").write_text("retries: 1\nquestions: 5\n", "utf-8")
    (fractal.folder / "fractal.yaml").write_text("retries: 3\n", "utf-8")
    env = {"FRACTAL_CHECK": "auto", "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    found = json.loads(fractal("config", "--json", env=env).out)
    assert found["retries"] == {"value": 3, "source": str(fractal.folder / "fractal.yaml")}
    assert found["questions"] == {"value": 5, "source": str(own / "fractal.yaml")}
    assert found["check"] == {"value": "auto", "source": "FRACTAL_CHECK"}
    assert found["usd"]["source"] == "default"
    assert fractal("config", "retries", env=env).out == "3\n"
    assert fractal("config", "check", env=env).out == "auto\n"
    assert fractal("config", "nope").exit == 2


def test_init_makes_a_workspace_that_runs_are_kept_in(fractal: Command) -> None:
    ran = fractal("init", "new")
    new = fractal.folder / "new"
    assert (ran.exit, ran.out) == (0, "")
    assert [path.name for path in (new / "system").iterdir()] == ["README.md"]
    assert (new / "state").stat().st_mode & 0o777 == 0o700
    assert "/state/*" in (new / ".gitignore").read_text()
    assert str(new / "state") in fractal("-C", "new", "ls").err


def test_the_settings_that_init_writes_name_everything_and_set_nothing(fractal: Command) -> None:
    import yaml

    from runtime.workspace.settings import Config

    fractal("init", "new")
    text = (fractal.folder / "new" / "fractal.yaml").read_text("utf-8")
    assert yaml.safe_load(text) is None
    settings = yaml.safe_load(
        "\n".join(
            line[2:]
            for line in text.splitlines()
            if line.startswith("# ") and ": " in line and line[2:].split(":")[0] in Config.model_fields
        )
    )
    assert Config.model_validate(settings) == Config()
    assert set(settings) == set(Config.model_fields)


def test_init_overwrites_nothing(fractal: Command) -> None:
    (fractal.folder / "system").mkdir()
    (fractal.folder / "system" / "pattern.md").write_text("mine", "utf-8")
    (fractal.folder / "fractal.yaml").write_text("retries: 1\n", "utf-8")
    (fractal.folder / ".gitignore").write_text("*.pyc\n", "utf-8")
    for _ in range(2):
        assert fractal("init").exit == 0
    assert (fractal.folder / "system" / "pattern.md").read_text() == "mine"
    assert (fractal.folder / "fractal.yaml").read_text() == "retries: 1\n"
    assert (fractal.folder / ".gitignore").read_text().splitlines() == [
        "*.pyc",
        "/state/*",
        "!/state/README.md",
    ]


def test_init_full_copies_everything_that_ships(fractal: Command) -> None:
    assert fractal("init", "--full", "whole").exit == 0
    shipped = shipped_system()
    names = {path.relative_to(shipped) for path in shipped.rglob("*.md")}
    whole = fractal.folder / "whole" / "system"
    assert {path.relative_to(whole) for path in whole.rglob("*.md")} == names
    assert fractal("init", "--full", "--bare", "other").exit == 2


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("turn", "phases/turn.md"),
        ("phases/check.reply.md", "phases/check.reply.md"),
        ("count", "operations/count.md"),
        ("count-in-file", "reflexes/count-in-file.md"),
        ("bash", "kernel/bash.md"),
        ("build", "tools/build/pattern.md"),
        ("dangers", "dangers.md"),
    ],
)
def test_edit_copies_one_shipped_file_and_prints_its_path(fractal: Command, name: str, path: str) -> None:
    fractal("init")
    own = fractal.folder / "system"
    for _ in range(2):
        assert fractal("system", "edit", name).out == f"{own / path}\n"
    assert (own / path).read_bytes() == (shipped_system() / path).read_bytes()
    assert sorted(each.name for each in own.rglob("*") if each.is_file()) == sorted(
        ["README.md", own.joinpath(path).name]
    )


def test_edit_names_the_nearest_file_and_leaves_the_folder(fractal: Command) -> None:
    ran = fractal("system", "edit", "turnn")
    assert (ran.exit, "did you mean turn?" in ran.err) == (2, True)
    assert fractal("system", "edit", "../../notes").exit == 2


def test_a_file_of_the_overlay_is_used_and_all_others_are_the_shipped_ones(fractal: Command) -> None:
    fractal("init")
    own = fractal.folder / "system"
    before = json.loads(fractal("tools", "ls", "--json").out)
    fractal("system", "edit", "count")
    text = (own / "operations/count.md").read_text().replace("description: ", "description: OURS ", 1)
    (own / "operations/count.md").write_text(text)
    fractal("system", "edit", "count-in-file")
    reflex = own / "reflexes" / "count-in-file.md"
    reflex.write_text("---\nname: count-in-file\n---\n")
    after = json.loads(fractal("tools", "ls", "--json").out)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert [(each["name"], each["origin"]) for each in changed] == [("count", "own")]
    assert changed[0]["description"].startswith("OURS ")
    assert fractal("system", "log").out.count("person") == 2
    model = fractal.script("m.yaml", ASKS)
    fractal("system", "edit", "phases/turn.base.md")
    (own / "phases" / "turn.base.md").write_text("OUR WORDS\n")
    fractal("run", "-q", "-m", model, "frobnicate it")
    assert "OUR WORDS" in fractal("prompt", env={"FRACTAL_MODEL": model}).out


def test_a_bare_workspace_has_the_pattern_and_the_three_hands_and_nothing_behind_them(
    fractal: Command,
) -> None:
    for _ in range(2):
        assert fractal("init", "--bare", "new").exit == 0
    system = fractal.folder / "new" / "system"
    made = sorted(path.relative_to(system).as_posix() for path in system.rglob("*") if path.is_file())
    assert made == ["kernel/bash.md", "kernel/read.md", "kernel/write.md", "pattern.md"]
    assert fractal("-C", "new", "config", "shipped").out == "false\n"
    names = [each["name"] for each in json.loads(fractal("-C", "new", "tools", "ls", "--json").out)]
    assert sorted(names) == ["bash", "read", "write"]
    checks = json.loads(fractal("-C", "new", "doctor", "--json").out)
    assert "; bare" in {each["name"]: each["found"] for each in checks}["workspace"]
    assert "; bare" not in fractal("doctor").out


def test_a_workspace_with_more_in_it_is_not_made_bare(fractal: Command) -> None:
    assert fractal("init", "whole").exit == 0
    ran = fractal("init", "--bare", "whole")
    assert (ran.exit, "fractal.yaml already exists" in ran.err) == (2, True)
    (fractal.folder / "some" / "system" / "phases").mkdir(parents=True)
    (fractal.folder / "some" / "system" / "phases" / "do.md").write_text("do", "utf-8")
    assert "do.md already exists" in fractal("init", "--bare", "some").err
    assert not (fractal.folder / "some" / "fractal.yaml").exists()


def test_tools_lists_shows_and_checks_the_catalogue(fractal: Command) -> None:
    assert "read(path, lines?)" in fractal("tools", "ls").out
    about = {each["name"]: each for each in json.loads(fractal("tools", "ls", "--json").out)}
    assert about["write"]["effects"] == ["write"]
    assert fractal("tools", "show", "read").out.startswith("---\nname: read")
    unknown = fractal("tools", "show", "raed")
    assert (unknown.exit, "read" in unknown.err) == (2, True)
    assert fractal("tools", "check").exit == 0


def test_tools_check_finds_what_is_malformed_or_missing(fractal: Command) -> None:
    system = fractal.folder / ".fractal" / "system"
    (fractal.folder / ".fractal" / "state").mkdir(parents=True)
    (system / "operations").mkdir(parents=True)
    (system / "tools" / "mine").mkdir(parents=True)
    (system / "operations" / "gone.md").write_text(
        "---\nname: gone\ndescription: x\nrun: 'python: runtime.operations.nowhere:gone'\n---\n", "utf-8"
    )
    (system / "operations" / "torn.md").write_text("---\nname: [\n---\n", "utf-8")
    (system / "tools" / "mine" / "pattern.md").write_text(
        "---\nname: mine\ndescription: x\nrun: 'command: ./go.py'\n---\n", "utf-8"
    )
    ran = fractal("tools", "check")
    assert ran.exit == 1
    assert "torn.md:" in ran.out and "not YAML" in ran.out
    assert "gone.md: run: No module named" in ran.out
    assert "there is no program go.py beside it" in ran.out
    assert "skipped: " in fractal("tools", "show", "torn").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(fractal: Command, shell: str) -> None:
    ran = fractal("completion", shell)
    assert ran.exit == 0
    assert "_FRACTAL_COMPLETE" in ran.out


@pytest.mark.usefixtures("written")
def test_commands_and_runs_can_be_completed(fractal: Command) -> None:
    env = {"_FRACTAL_COMPLETE": "bash_complete", "COMP_WORDS": "fractal ex", "COMP_CWORD": "1"}
    assert "explain" in fractal.process(env=env).out
    env |= {"COMP_WORDS": f"fractal show {RUN[:2]}", "COMP_CWORD": "2"}
    assert RUN in fractal.process(env=env).out


@pytest.mark.usefixtures("written")
def test_feedback_is_kept_with_the_run(fractal: Command) -> None:
    assert fractal("feedback", RUN, "bad", "too", "long").exit == 0
    (path,) = fractal.folder.glob(f".fractal/state/runs/{RUN}/inbox/*-feedback.json")
    kept = json.loads(path.read_text("utf-8"))
    assert (kept["good"], kept["why"]) == (False, "too long")
    assert fractal("feedback", RUN, "fine").exit == 2


@pytest.mark.usefixtures("written")
def test_a_run_that_has_ended_hears_nothing_more(fractal: Command) -> None:
    for words in (["answer", RUN, "x"], ["approve", RUN], ["reject", RUN], ["cancel", RUN]):
        ran = fractal(*words)
        assert ran.exit == 2
        assert "has ended (complete)" in ran.err


@pytest.mark.usefixtures("written")
def test_the_prompt_of_an_ended_document_is_none(fractal: Command) -> None:
    ran = fractal("prompt", RUN)
    assert (ran.exit, ran.out) == (2, "")
    assert "no further prompt" in ran.err


def test_the_command_alone_prints_its_help(fractal: Command) -> None:
    ran = fractal()
    assert ran.exit == 0 and ran.err == ""
    assert ran.out == fractal("--help").out


def test_tools_ls_says_which_tools_are_the_workspaces_own(fractal: Command) -> None:
    fractal("init")
    tool = Path(fractal("system", "edit", "mkdir").out.strip())
    assert tool == fractal.folder / "system" / "operations" / "mkdir.md"
    tool.write_text(tool.read_text() + "\nOurs.\n")
    listed = {each["name"]: each["origin"] for each in json.loads(fractal("tools", "ls", "--json").out)}
    assert (listed["mkdir"], listed["move"]) == ("own", "shipped")


def test_brain_report_says_what_the_runs_were(fractal: Command) -> None:
    for _ in range(2):
        assert fractal("run", "-q", "what is 2 + 2").exit == 0
    assert "2 runs, 2 of them without a model; memory decided none of them" in fractal("brain", "report").err


def test_model_shows_who_answers_and_in_which_form(fractal: Command) -> None:
    shown = json.loads(fractal("model", "--json", env={"FRACTAL_MODEL": "ollama/qwen2.5:3b"}).out)
    forms = {rung["rung"]: rung["form"] for rung in shown["ladder"]}
    assert forms["ollama/qwen2.5:3b"] == "micro"
    assert forms["person"] == "-"
    assert shown["source"] == "FRACTAL_MODEL"
    assert "micro" in fractal("model", "--model", "ollama/qwen2.5:3b").out


def test_model_shows_context_and_price(fractal: Command) -> None:
    own = {"FRACTAL_MODEL": "openai/gpt-5-mini", "OPENAI_API_KEY": "k"}
    ladder = json.loads(fractal("model", "--json", env=own).out)["ladder"]
    (rung,) = [each for each in ladder if "/" in each["rung"]]
    assert rung["context"] > 100_000
    assert rung["price"].endswith("per million tokens")


def test_model_shows_the_window_and_who_says_so(fractal: Command, llm_server: LlmServer) -> None:
    llm_server.pages["/v1/models"] = {"data": [{"id": "m", "max_model_len": 16384}]}
    own = {"FRACTAL_MODEL": "openai/m", "FRACTAL_API_BASE": llm_server.url}
    ladder = json.loads(fractal("model", "--json", env=own).out)["ladder"]
    (rung,) = [each for each in ladder if each["rung"] == "openai/m"]
    assert (rung["context"], rung["context_by"]) == (16384, "the server")
    shown = fractal("model", env={**own, "FRACTAL_CONTEXT": "4096"}).out
    assert "CONTEXT BY" in shown and "4,096" in shown and "the settings" in shown


def test_ping_asks_each_model_for_a_token(fractal: Command, llm_server: LlmServer) -> None:
    llm_server.say("ready")
    env = {"FRACTAL_MODEL": "openai/m", "FRACTAL_API_BASE": llm_server.url}

    def ping() -> dict[str, str]:
        checks = json.loads(fractal("doctor", "--ping", "--json", env=env).out)
        return next(each for each in checks if each["name"] == "ping openai/m")

    assert ping()["state"] == "ok"
    assert llm_server.bodies[0]["max_tokens"] == 1
    llm_server.fail(404, "no model m")
    broken = ping()
    assert (broken["state"], "no model m" in broken["found"]) == ("broken", True)


def test_model_reports_a_model_that_cannot_be_tried(fractal: Command, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    ran = fractal("model", "--try", "--model", f"llama:{broken}")
    assert "cannot load it" in ran.out + ran.err
