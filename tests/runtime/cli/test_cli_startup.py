"""`fractal --help` and errors cost nothing that they do not need, and never show a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import REPOSITORY, Command, environment

from runtime.cli import COMMANDS, cli

OF_KERNEL = "kernel.asking kernel.document.model kernel.events kernel.loop kernel.store kernel.tools.tool"
HEAVY = f"pydantic rich yaml jinja2 litellm llama_cpp pint frontmatter asyncio numpy {OF_KERNEL}"
"""The guard of imports (`runtime.own`) stands before all else."""


OF_RUNS = "asyncio runtime.api.fractal kernel.asking.prompt kernel.loop.engine runtime.memory.brain numpy.ma"


def _loaded(*words: str, names: str = HEAVY) -> set[str]:
    code = (
        "import sys\nfrom runtime.cli import main\n"
        f"try: main({list(words)!r})\nexcept SystemExit: pass\n"
        f"print(*[n for n in {names.split()!r} if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=REPOSITORY, capture_output=True, text=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_the_help_and_the_version_import_nothing_heavy(words: list[str]) -> None:
    assert _loaded(*words) == set()


def test_the_help_of_a_command_imports_no_more_than_that_command() -> None:
    assert _loaded("run", "--help") <= {
        *(each for each in HEAVY.split() if each.startswith("kernel.")),
        "asyncio",
    }


def test_remembering_and_recalling_a_fact_import_nothing_of_runs(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("")
    for words in (["remember", "the boat is blue"], ["recall", "which boat is blue"]):
        assert _loaded("-C", str(tmp_path), *words, names=f"{OF_RUNS} pydantic") == {"pydantic"}
    assert (tmp_path / "state" / "memory" / "brain.sqlite3").is_file()


def test_every_command_of_the_help_can_be_imported_and_explains_itself() -> None:
    for name in [name for group in COMMANDS.values() for name in group]:
        result = CliRunner().invoke(cli, [name, "--help"])
        assert result.exit_code == 0, result.output
        assert "Usage: " in result.output


def test_an_unknown_command_names_the_nearest(fractal: Command) -> None:
    ran = fractal("expalin")
    assert (ran.exit, ran.out) == (2, "")
    assert "did you mean explain?" in ran.err


def test_a_wrong_option_is_wrong_usage_in_one_line(fractal: Command) -> None:
    ran = fractal("run", "--nope", "x")
    assert ran.exit == 2
    assert ran.err.startswith("fractal: No such option")


@pytest.mark.parametrize("words", [["-C", "sub", "ls"], ["ls", "-C", "sub"]])
def test_a_folder_can_be_named_before_and_after_the_command(fractal: Command, words: list[str]) -> None:
    (fractal.folder / "sub").mkdir()
    assert str(fractal.folder / "sub" / ".fractal") in fractal(*words).err


def test_a_fault_of_ours_is_one_line_unless_debugging_is_asked_for(fractal: Command) -> None:
    (fractal.folder / "run.md").mkdir()  # a folder where a document is looked for
    code = (
        "import runtime.cli as c\n"
        "c._PLACES['ls'] = 'nothing_there'\n"  # a table that names a module that is not there
        "c.main(['ls'])"
    )
    plain = [sys.executable, "-c", code]
    ran = subprocess.run(plain, cwd=fractal.folder, env=environment(), capture_output=True, text=True)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "please report it" in ran.stderr
    env = environment(FRACTAL_DEBUG="1")
    ran = subprocess.run(plain, cwd=fractal.folder, env=env, capture_output=True, text=True)
    assert "Traceback" in ran.stderr


def test_a_reader_that_had_enough_is_no_error(fractal: Command) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from runtime.cli import main; main()", "config"],
        cwd=fractal.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    stderr = process.stderr.read()
    assert process.wait() == 0
    assert "Broken" not in stderr and "Traceback" not in stderr


def test_the_package_can_be_run_as_a_module(fractal: Command) -> None:
    module = [sys.executable, "-m", "runtime.cli", "--version"]
    ran = subprocess.run(module, cwd=fractal.folder, env=environment(), capture_output=True, text=True)
    assert ran.stdout.startswith("fractal ")
