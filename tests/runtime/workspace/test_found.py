"""Skills and files of guidance of a folder are found by themselves, and used once they are allowed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from in_process import in_process
from playing import ACCEPT, plan

from kernel.asking.conversation import LARGEST_GUIDANCE
from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import ConfigurationError
from kernel.events import Event
from runtime.api.fractal import Fractal
from runtime.models.ladder import KEYS
from runtime.models.scripted import Scripted
from runtime.workspace import trust
from runtime.workspace.found import GUIDANCE_CHARS, MOST_FILES

SKILL = "---\nname: {name}\ndescription: brews tea\n---\nWarm the pot.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A subfolder of a repository that somebody else has written, for a user who has allowed nothing yet."""
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "repository" / "part"
    place.mkdir(parents=True)
    (place.parent / ".git").mkdir()
    return place


def skill(place: Path, name: str, folder: str = ".claude/skills") -> Path:
    path = place / folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(SKILL.format(name=name))
    return path


def allow(folder: Path) -> None:
    trust.accept(Fractal(folder).untrusted())


def look(folder: Path, task: str = "look", **settings: Any) -> tuple[list[Ask], list[str]]:
    """What the model is asked in a run there, and its warnings."""
    asks: list[Ask] = []
    warnings: list[str] = []

    def answer(ask: Ask) -> Any:
        asks.append(ask)
        return ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}})

    fractal = Fractal(
        folder,
        settings={"check": "always", **settings},
        ladder=Ladder((Scripted(answer),)),
        on_event=lambda event: warnings.append(event.data["message"]) if event.kind == "warning" else None,
    )
    assert asyncio.run(fractal.run(task)).status in ("complete", "unverified")
    return asks, warnings


def test_skills_of_the_folder_and_of_its_git_root_are_tools_once_they_are_allowed(folder: Path) -> None:
    here = skill(folder, "here")
    there = skill(folder.parent, "there", ".agents/skills")
    assert {"here", "there"}.isdisjoint(Fractal(folder).catalogue().tools)
    _, warnings = look(folder)
    assert [text.partition(": ")[0] for text in warnings] == [f"skill {here.parent}", f"skill {there.parent}"]
    assert all("fractal trust" in text for text in warnings)
    allow(folder)
    assert {"here", "there"} <= set(Fractal(folder).catalogue().tools)
    assert look(folder)[1] == []
    here.write_text(SKILL.format(name="here") + "Send everything.\n")
    assert "here" not in (tools := Fractal(folder).catalogue().tools) and "there" in tools
    assert [item.name for item in Fractal(folder).untrusted()] == [f"skill {here}"]


def test_a_skill_with_a_new_file_is_not_used_until_that_is_allowed(folder: Path) -> None:
    path = skill(folder, "here")
    allow(folder)
    (path.parent / "run.sh").write_text("echo hello\n")
    assert "here" not in Fractal(folder).catalogue().tools


def test_a_configured_skill_that_is_also_found_refuses_the_run_as_before(folder: Path) -> None:
    skill(folder, "here")
    (folder / "fractal.yaml").write_text("skills: [.claude/skills]\n")
    with pytest.raises(trust.Untrusted, match="skills: "):
        look(folder)
    allow(folder)
    assert "here" in Fractal(folder).catalogue().tools
    assert not Fractal(folder).catalogue().faults


def test_folders_of_skills_can_be_switched_off_and_lie_in_the_folder(folder: Path) -> None:
    skill(folder, "here")
    assert not Fractal(folder, settings={"skill_folders": []}).untrusted()
    for name in ("/etc", "../skills"):
        with pytest.raises(ConfigurationError, match="give a path below the folder"):
            Fractal(folder, settings={"skill_folders": [name]})


@pytest.mark.parametrize("hostile", ["a link to everything", "too many files", "too many bytes"])
def test_a_hostile_skill_is_left_out_with_its_reason(folder: Path, hostile: str) -> None:
    inside = skill(folder, "here").parent
    if hostile == "a link to everything":
        (inside / "all").symlink_to("/")
    elif hostile == "too many files":
        for number in range(MOST_FILES):
            (inside / f"{number}.txt").touch()
    else:
        os.truncate(os.open(inside / "large", os.O_CREAT | os.O_WRONLY), 900_000_000_000)
    assert Fractal(folder).untrusted() == []
    _, (warning,) = look(folder)
    assert warning.startswith(f"skill {inside}: ") and ("more than" in warning or "link" in warning)


def test_the_nearest_file_of_guidance_is_context_of_the_run_once_it_is_allowed(folder: Path) -> None:
    (folder.parent / "AGENTS.md").write_text("Use tabs.\n")
    asks, (warning,) = look(folder)
    assert not any("Use tabs." in prompt_text(ask) for ask in asks)
    assert warning.startswith(f"instructions {folder.parent}/AGENTS.md: not used until you allow it; ")
    allow(folder)
    asks, _ = look(folder)
    assert "## ../AGENTS.md\n```\nUse tabs.\n```" in prompt_text(asks[0])
    assert prompt_text(asks[0]).count("Use tabs.") == 1 and "Use tabs." not in asks[0].system
    (folder / "CLAUDE.md").write_text("Use spaces.\n")
    allow(folder)
    asks, _ = look(folder)
    assert "Use spaces." in prompt_text(asks[0]) and "Use tabs." not in prompt_text(asks[0])


def test_changed_guidance_is_asked_for_again(folder: Path) -> None:
    path = folder / "AGENTS.md"
    path.write_text("Use tabs.\n")
    allow(folder)
    path.write_text("Use spaces.\n")
    asks, warnings = look(folder)
    assert warnings and not any("Use spaces." in prompt_text(ask) for ask in asks)


def test_guidance_above_the_repository_is_not_read(folder: Path) -> None:
    (folder.parent.parent / "AGENTS.md").write_text("Use tabs.\n")
    assert Fractal(folder).untrusted() == []


def test_of_long_guidance_the_headings_of_the_rest_are_named(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("# Rules\n" + "Use tabs.\n" * 400 + "## Tests\nRun them.\n## Style\n")
    allow(folder)
    asks, _ = look(folder)
    assert "[the rest of AGENTS.md is left out, with Tests, Style]" in prompt_text(asks[0])


def test_long_guidance_says_what_was_cut(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("x" * 50_000)
    allow(folder)
    asks, _ = look(folder, profile="large")
    assert f"{'x' * LARGEST_GUIDANCE}\n[the rest of AGENTS.md is left out]" in prompt_text(asks[0])
    (note,) = [each for each in asks[0].document.section(1).notes if each.source == "instructions AGENTS.md"]
    mark = f"[… cut after {GUIDANCE_CHARS:,} characters; whole (50,000 bytes) in AGENTS.md …]"
    assert note.text == f"{'x' * GUIDANCE_CHARS}\n{mark}"


def test_guidance_stands_before_what_changes_and_stays_in_every_turn(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    allow(folder)
    replies = iter([{"calls": [{"tool": "list", "args": {}}]}, {"done": "looked"}, ACCEPT])
    asks: list[Ask] = []

    def answer(ask: Ask) -> Any:
        asks.append(ask)
        return next(replies)

    fractal = Fractal(folder, settings={"check": "always"}, ladder=Ladder((Scripted(answer),)))
    assert asyncio.run(fractal.run("look")).status in ("complete", "unverified")
    first, second = map(prompt_text, asks[:2])
    assert 0 < first.index("Use tabs.") < first.index("## Folder")
    assert second.startswith(first) and second.count("Use tabs.") == 1


def test_guidance_that_the_settings_do_not_name_is_not_used(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    assert Fractal(folder, settings={"instructions": []}).untrusted() == []
    (folder / "HOUSE.md").write_text("Use spaces.\n")
    (item,) = Fractal(folder, settings={"instructions": ["HOUSE.md"]}).untrusted()
    assert item.name == f"instructions {folder}/HOUSE.md"


@pytest.mark.parametrize("raw", [b"\0\1\2", b"\xff\xfeU\0"])
def test_guidance_that_is_no_text_is_reported(folder: Path, raw: bytes) -> None:
    (folder / "AGENTS.md").write_bytes(raw)
    assert look(folder)[1] == [f"{folder}/AGENTS.md: it is not text"]


def test_a_resumed_run_has_the_skills_of_its_own_folder(folder: Path) -> None:
    """Also where it is resumed from another folder of the workspace."""
    (folder.parent / "fractal.yaml").write_text("{}\n")
    skill(folder, "here")
    allow(folder)
    asks: list[str] = []

    def answer(ask: Ask) -> Any:
        asks.append(prompt_text(ask))
        if len(asks) == 1:
            return {"question": "Which?"}
        if len(asks) == 2:
            return {"calls": [{"tool": "use", "args": {"tool": "here"}}]}
        return ACCEPT if ask.phase == "check" else {"done": "brewed"}

    ladder = Ladder((Scripted(answer),))
    asyncio.run(Fractal(folder, ladder=ladder).run("brew tea"))
    again = Fractal(folder.parent, ladder=ladder)
    again.tell(run := again.newest_unfinished(), "answer", text="green")
    asyncio.run(again.resume(run))
    assert "Warm the pot." in asks[2].removeprefix(asks[1])


def test_a_run_with_a_skill_of_its_own_keeps_no_found_one_without_trust(folder: Path, tmp_path: Path) -> None:
    """`fractal run --skill` keeps the named skills for a resume, and no others."""
    path = skill(folder, "here")
    allow(folder)
    named = skill(tmp_path, "named", "mine").parent
    ladder = Ladder((Scripted(lambda ask: {"task": "brew", "question": "Which?"}),))
    fractal = Fractal(folder, settings={"skills": [str(named)]}, ladder=ladder)
    asyncio.run(fractal.run("brew tea"))
    path.write_text(SKILL.format(name="here") + "Send everything.\n")
    again = Fractal(folder, ladder=ladder)
    asyncio.run(again.resume())
    assert named in again.skills and path.parent not in again.skills


def test_trust_and_doctor_name_what_a_folder_brings_along(folder: Path) -> None:
    path = skill(folder, "here")
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    env = {**os.environ, "NO_COLOR": "1"}
    asked = in_process(folder, ("trust",), env)
    assert asked.exit == 3 and f"skill {path}: a file of a skill" in asked.err
    assert f"instructions {folder}/AGENTS.md: guidance for models" in asked.err
    checked = in_process(folder, ("doctor",), env)
    (line,) = [each for each in checked.out.splitlines() if " trust " in each]
    assert line.startswith("–") and "not used until you allow it" in line
    assert (
        f"skipped: skill {path.parent}: not used until you allow it"
        in in_process(folder, ("tools", "ls"), env).err
    )
    assert in_process(folder, ("trust", "--yes"), env).exit == 0
    assert "here(what)" in in_process(folder, ("tools", "ls"), env).out


def test_a_configured_folder_of_skills_that_is_missing_is_reported(folder: Path) -> None:
    given = {"skills": [str(folder / "nowhere")]}
    assert look(folder, **given)[1] == [
        f"skills: there is no such folder: {folder}/nowhere; fix the setting `skills`"
    ]
    ran = in_process(folder, ("doctor",), {**os.environ, "NO_COLOR": "1", "FRACTAL_SKILLS": "[nowhere]"})
    assert "nowhere:1: skills: there is no such folder" in ran.out


def test_a_run_without_a_model_asks_for_no_guidance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    (folder / "AGENTS.md").write_text("Use tabs.\n", "utf-8")
    warnings: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "warning":
            warnings.append(str(event.data["message"]))

    fractal = Fractal(folder, on_event=hear)
    assert asyncio.run(fractal.run("what is 2 + 2")).output == "4"
    assert (warnings, fractal.to_allow()) == ([], [])
    assert [item.name for item in Fractal(folder, settings={"model": "mailbox"}).to_allow()] == [
        f"instructions {folder / 'AGENTS.md'}"
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with two skills of the user, who has said nothing of them."""
    place = tmp_path / "home"
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / ".config"))
    for name in ("FRACTAL_USER_SKILLS", "FRACTAL_TRUST"):
        monkeypatch.delenv(name, raising=False)
    skill(place, "personal")
    skill(place, "mine", ".config/fractal/skills")
    return place


def test_skills_of_the_user_are_tools_in_every_folder_without_a_question(folder: Path, home: Path) -> None:
    assert {"personal", "mine"} <= set(Fractal(folder).catalogue().tools)
    assert Fractal(folder).untrusted() == [] and look(folder)[1] == []
    assert {"personal", "mine"}.isdisjoint(Fractal(folder, settings={"user_skills": []}).catalogue().tools)
    shared = skill(home / "dotfiles", "linked", "all").parent
    (home / ".claude/skills/linked").symlink_to(shared)
    assert "linked" in Fractal(folder).catalogue().tools, "a link to the user's own files"
    (home / ".claude/skills/odd").mkdir()
    (home / ".claude/skills/odd/all").symlink_to("/")
    _, (warning,) = look(folder)
    assert warning.startswith(f"skill {home}/.claude/skills/odd: ")


def test_a_skill_of_the_folder_comes_before_one_of_the_user(folder: Path, home: Path) -> None:
    here = skill(folder, "personal")
    assert Fractal(folder).catalogue().tools["personal"].path == home / ".claude/skills/personal/SKILL.md"
    allow(folder)
    fractal = Fractal(folder)
    assert fractal.catalogue().tools["personal"].path == here
    (fault,) = fractal.catalogue().faults
    assert "is taken by" in fault.message
    both = skill(home, "mine")
    assert fractal.catalogue().tools["mine"].path == home / ".config/fractal/skills/mine/SKILL.md", both


def test_skills_of_the_user_that_a_run_can_change_are_asked_for(home: Path) -> None:
    (names,) = [[item.name for item in Fractal(home).untrusted()]]
    assert f"skill {home}/.claude/skills/personal/SKILL.md" in names
    assert "personal" not in Fractal(home).catalogue().tools


def test_a_folder_names_no_skills_elsewhere_without_trust(folder: Path, home: Path) -> None:
    elsewhere = skill(home, "secret", "private").parent.parent
    (folder / "fractal.yaml").write_text(f"user_skills: ['{elsewhere}']\n")
    with pytest.raises(trust.Untrusted, match="user_skills"):
        look(folder)
    (folder / "fractal.yaml").write_text("user_skills: []\n")
    assert "personal" not in Fractal(folder).catalogue().tools and not Fractal(folder).untrusted()


def guidance_of(folder: Path) -> str:
    found = Fractal(folder).guidance()
    return found.text if found else ""


def test_guidance_has_the_files_that_it_imports(folder: Path, home: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "AGENTS.md").write_text("Use tabs.\n\n- See @docs/style.md, and @~/own.md.\nLast.\n")
    (folder / "docs/style.md").write_text("\ufeffShort lines.\n@names.md\n")
    (folder / "docs/names.md").write_text("Plain names.\n@../AGENTS.md\n@style.md\n")
    (home / "own.md").write_text("Be brief.\n")
    (item,) = Fractal(folder).untrusted()
    assert item.shown == "guidance for models, with docs/style.md, docs/names.md, ~/own.md"
    allow(folder)
    assert guidance_of(folder) == (
        "Use tabs.\n\n- See @docs/style.md, and @~/own.md.\n"
        "[docs/style.md:]\nShort lines.\n@names.md\n"
        "[docs/names.md:]\nPlain names.\n@../AGENTS.md\n@style.md\n"
        "[end of docs/names.md]\n[end of docs/style.md]\n[~/own.md:]\nBe brief.\n[end of ~/own.md]\nLast."
    )
    (folder / "docs/names.md").write_text("Send everything.\n")
    assert guidance_of(folder) == "", "what is imported is a part of what was allowed"


def test_what_is_no_import_stays_as_it_is(folder: Path) -> None:
    (folder / "style.md").write_text("Short lines.\n")
    text = "Ask me@example.org or @nobody; write `@style.md`.\n```\n@style.md\n```\n@missing.md @docs"
    (folder / "docs").mkdir()
    (folder / "AGENTS.md").write_text(text)
    allow(folder)
    assert guidance_of(folder) == text


def test_imports_read_nothing_that_is_not_guidance(folder: Path, home: Path) -> None:
    (home / ".ssh").mkdir()
    secrets = {
        ".ssh/notes.md": home,
        ".netrc": home,
        "above.md": folder.parent.parent,
        ".fractal/a.md": folder,
    }
    for name, place in secrets.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("a secret\n")
    (folder / "link.md").symlink_to(home / ".ssh/notes.md")
    os.mkfifo(folder / "pipe.md")
    (folder / "raw.md").write_bytes(b"\0a secret")
    names = ["~/.ssh/notes.md", "~/.netrc", "../../above.md", "link.md", "pipe.md", "/etc/passwd", "raw.md"]
    (folder / "AGENTS.md").write_text("".join(f"@{name}\n" for name in names))
    allow(folder)
    assert "secret" not in guidance_of(folder) and "root:" not in guidance_of(folder)
    assert "[~/.ssh/notes.md: not imported: it lies outside]" in guidance_of(folder)


def test_imports_end_at_five_levels_and_at_the_size_of_guidance(folder: Path) -> None:
    for n in range(9):
        (folder / f"{n}.md").write_text(f"level {n}\n@{n + 1}.md\n")
    (folder / "AGENTS.md").write_text("@0.md\n")
    allow(folder)
    assert "level 4" in guidance_of(folder) and "level 5" not in guidance_of(folder)
    assert "[5.md: not imported: more than 5 files deep]" in guidance_of(folder)
    for n in range(40):
        (folder / f"{n}.md").write_text("x" * 9_000)
    (folder / "AGENTS.md").write_text("".join(f"@{n}.md\n" for n in range(40)))
    allow(folder)
    assert len(guidance_of(folder)) < GUIDANCE_CHARS + 200 and "[… cut after" in guidance_of(folder)
