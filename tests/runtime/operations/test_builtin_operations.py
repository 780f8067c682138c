"""The builtin operations read, write and bash."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import within
from playing import boxed

from kernel.errors import OperationFailed
from kernel.tools.operations import file_hash
from runtime.catalogue.catalogue import Catalogue
from runtime.operations.bash import bash
from runtime.operations.read import read
from runtime.operations.write import write
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

BOXED = Sandbox("auto")
MODES = [pytest.param("auto", marks=boxed), "off"]
SYSTEM = Path(__file__).parents[3] / "system"


@pytest.fixture
def ctx(tmp_path: Path) -> OperationContext:
    """A context over an empty folder, without a sandbox."""
    (tmp_path / "folder").mkdir()
    return OperationContext(tmp_path / "folder", Sandbox("off"), timeout=20)


def put(ctx: OperationContext, name: str, content: str | bytes) -> Path:
    path = ctx.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ---- read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "one\n", "no end", "a\r\nb\rc\u2028d\x0ce\n", "\ufeffü 🌳\n", "\t \n\n"]
)
def test_file_is_read_exactly(ctx: OperationContext, text: str) -> None:
    put(ctx, "a.txt", text)
    result = read(ctx, "a.txt")
    assert (result.text, result.ok) == (text, True)
    assert result.evidence == {"bytes": len(text.encode()), "characters": len(text)}


def test_ten_megabytes_are_read(ctx: OperationContext) -> None:
    text = "0123456789abcde\n" * 655_360
    put(ctx, "big.txt", text)
    assert read(ctx, "big.txt").text == text
    assert read(ctx, "big.txt", "655360").text == "0123456789abcde\n"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("1", "one\r\n"),
        ("2", "two\u2028still two\n"),
        ("2-3", "two\u2028still two\nthree\n"),
        (" 3 - 9 ", "three\nfour"),
        ("3-", "three\nfour"),
        ("-2", "three\nfour"),
        ("-99", "one\r\ntwo\u2028still two\nthree\nfour"),
        ("-0", ""),
        ("", "one\r\ntwo\u2028still two\nthree\nfour"),
    ],
)
def test_lines_are_separated_by_line_feeds_and_counted_from_one(
    ctx: OperationContext, lines: str, text: str
) -> None:
    put(ctx, "a.txt", "one\r\ntwo\u2028still two\nthree\nfour")
    assert read(ctx, "a.txt", lines).text == text


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("x", "is none of"),
        ("-", "is none of"),
        ("1,2", "is none of"),
        ("٣", "is none of"),
        ("9" * 99, "is none of"),
        ("0", "counted from 1"),
        ("3-2", "counted from 1"),
        ("5", "a.txt has 4 lines; there is no line 5"),
        ("5-9", "there is no line 5"),
    ],
)
def test_invalid_line_ranges_are_refused(ctx: OperationContext, lines: str, why: str) -> None:
    put(ctx, "a.txt", "1\n2\n3\n4\n")
    with pytest.raises(OperationFailed, match=why):
        read(ctx, "a.txt", lines)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=5), max_size=8),
    st.data(),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_line_ranges_add_up_to_the_file(ctx: OperationContext, rows: list[str], data: Any) -> None:
    text = "".join(f"{row}\n" for row in rows)
    put(ctx, "a.txt", text)
    if len(rows) > 1:
        at = data.draw(st.integers(1, len(rows) - 1))
        assert read(ctx, "a.txt", f"1-{at}").text + read(ctx, "a.txt", f"{at + 1}-").text == text
        assert read(ctx, "a.txt", f"-{at}").text == read(ctx, "a.txt", f"{len(rows) - at + 1}-").text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "a binary file"),
        (b"fine until\0here", "a binary file"),
        ("héllo".encode("latin-1"), r"not UTF-8 text \(byte 1\)"),
        ("hello".encode("utf-16"), "UTF-16 text"),
        (b"\xed\xa0\x80", "not UTF-8 text"),
    ],
)
def test_files_that_are_not_text_are_refused_with_their_kind(
    ctx: OperationContext, content: bytes, why: str
) -> None:
    put(ctx, "a", content)
    with pytest.raises(OperationFailed, match=why):
        read(ctx, "a")


def test_missing_file_suggests_similar_names(ctx: OperationContext) -> None:
    put(ctx, "report.txt", "")
    put(ctx, "deep/down/notes.md", "")
    put(ctx, "node_modules/x/notes.md", "")
    with pytest.raises(OperationFailed, match=r"^reprot.txt: there is no such file; there is report.txt$"):
        read(ctx, "reprot.txt")
    with pytest.raises(OperationFailed, match=r"there is deep/down/notes.md$"):
        read(ctx, "missing/notes.md")
    with pytest.raises(OperationFailed, match=r"^zzz: there is no such file; use list to see"):
        read(ctx, "zzz")


def test_folders_pipes_and_outside_paths_are_refused(ctx: OperationContext) -> None:
    (ctx.folder / "sub").mkdir()
    os.mkfifo(ctx.folder / "pipe")
    (ctx.folder / "link").symlink_to("/etc/passwd")
    for path, why in [
        ("sub", "`list` shows"),
        (".", "`list` shows"),
        ("pipe", "not an ordinary file"),
        ("../x", "outside the folder"),
        ("/etc/passwd", "outside the folder"),
        ("link", "outside the folder"),
        ("a\0b", "NUL"),
        ("x" * 300, "too long"),
    ]:
        with pytest.raises(OperationFailed, match=why):
            read(ctx, path)


# ---- write ------------------------------------------------------------------------------------------------


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_content_is_written_exactly(ctx: OperationContext, one: str, two: str) -> None:
    write(ctx, "a.txt", one)
    assert (ctx.folder / "a.txt").read_bytes() == one.encode()
    write(ctx, "a.txt", two, append=True)
    assert (ctx.folder / "a.txt").read_bytes() == (one + two).encode()
    if "\0" not in one + two:
        assert read(ctx, "a.txt").text == one + two


def test_result_of_a_write_says_what_changed(ctx: OperationContext) -> None:
    assert write(ctx, "new/deep/a.txt", "ü\n").text == "wrote new/deep/a.txt, 2 characters"
    assert write(ctx, "new/deep/a.txt", "x").text == "replaced new/deep/a.txt, 1 character"
    result = write(ctx, "./new/deep/../deep/a.txt", "yy", append=True)
    assert result.text == "added to new/deep/a.txt, 2 characters"
    assert result.evidence == {"bytes": 3, "existed": True}
    assert write(ctx, "b.txt", "", append=True).text == "wrote b.txt, 0 characters"


def test_prepare_predicts_the_hash(ctx: OperationContext) -> None:
    put(ctx, "a.txt", "one\n")
    for append in (False, True):
        (touch,) = write.prepare(ctx, path="a.txt", content="two\n", append=append)  # type: ignore[attr-defined]
        assert touch.path == ctx.folder.resolve() / "a.txt"
        assert touch.after != file_hash(touch.path)
        write(ctx, "a.txt", "two\n", append)
        assert touch.after == file_hash(touch.path)


def test_file_mode_is_kept_and_new_files_follow_the_umask(ctx: OperationContext) -> None:
    script = put(ctx, "run.sh", "#!/bin/sh\n")
    script.chmod(0o750)
    write(ctx, "run.sh", "#!/bin/sh\necho\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    before = os.umask(0o027)
    try:
        write(ctx, "new.txt", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((ctx.folder / "new.txt").stat().st_mode) == 0o640


def test_write_follows_a_link(ctx: OperationContext) -> None:
    put(ctx, "real.txt", "old")
    (ctx.folder / "link.txt").symlink_to("real.txt")
    write(ctx, "link.txt", "new")
    assert (ctx.folder / "link.txt").is_symlink()
    assert (ctx.folder / "real.txt").read_text() == "new"


@pytest.mark.parametrize("name", ["~draft.txt", "./~/a.txt", "$a.txt", "a~/b.txt"])
def test_a_name_that_no_shell_replaces_is_a_name(ctx: OperationContext, name: str) -> None:
    write(ctx, name, "x")
    assert (ctx.folder / name).read_text() == "x"


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        ("sub", "", "is a folder"),
        ("a.txt/b", "", "a.txt is a file"),
        ("pipe", "", "not an ordinary file"),
        ("../out.txt", "", "outside the folder"),
        ("out/x", "", "outside the folder"),
        ("~/notes/b.txt", "", "~ is not replaced here"),
        ("~you/b.txt", "", "~you is not replaced here"),
        ("$HOME/c.txt", "", "HOME is not replaced here"),
        ("${HOME}/c.txt", "", "is not replaced here"),
        (".git/config", "", "protected"),
        ("sub/.git/hooks/x", "", "protected"),
        ("fractal.yaml", "", "protected"),
        ("own/x", "", "protected"),
        ("", "", "protected"),  # it contains a protected path
        (".", "", "protected"),
        ("x" * 300, "", "too long"),
        ("a.txt", "half \ud83d", "character 5 is half of a surrogate pair"),
    ],
)
def test_refused_writes_change_nothing(ctx: OperationContext, path: str, content: str, why: str) -> None:
    put(ctx, "a.txt", "old")
    (ctx.folder / "sub").mkdir()
    os.mkfifo(ctx.folder / "pipe")
    (ctx.folder / "out").symlink_to(ctx.folder.parent)
    ctx = replace(ctx, protected=(ctx.folder.resolve() / "own",))
    before = sorted(ctx.folder.rglob("*"))
    for call in (write, write.prepare):  # type: ignore[attr-defined]
        with pytest.raises(OperationFailed, match=why):
            call(ctx, path=path, content=content)
    assert sorted(ctx.folder.rglob("*")) == before
    assert (ctx.folder / "a.txt").read_text() == "old"


def test_failed_write_changes_nothing(ctx: OperationContext) -> None:
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from runtime.sandbox.context import OperationContext; from runtime.operations.write import write\n"
        "from runtime.sandbox.sandbox import Sandbox\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write(OperationContext(Path(sys.argv[1]), Sandbox('off')), 'a.txt', 'x' * 5000)"
    )
    put(ctx, "a.txt", "old")
    words = [sys.executable, "-c", program, str(ctx.folder)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert "a.txt: cannot be written: File too large; nothing was changed" in ran.stderr
    assert [path.name for path in ctx.folder.iterdir()] == ["a.txt"]
    assert (ctx.folder / "a.txt").read_text() == "old"


# ---- bash -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_command_returns_output_and_evidence(ctx: OperationContext, mode: str) -> None:
    ctx = replace(ctx, sandbox=Sandbox(mode))
    result = await bash(ctx, "cat; echo err >&2", stdin="in\n")
    assert (result.text, result.ok) == ("in\nerr", True)
    seconds = result.evidence["seconds"]
    assert result.evidence == {
        "exit": 0,
        "mode": "off" if mode == "off" else "bwrap",
        "seconds": seconds,
        "timed_out": False,
        "cut": False,
    }


async def test_failing_command_ends_with_its_exit_code(ctx: OperationContext) -> None:
    result = await bash(ctx, "echo told; exit 3")
    assert (result.text, result.ok, result.evidence["exit"]) == ("told\n[exit 3]", False, 3)
    assert (await bash(ctx, "false")).text == "[exit 1]"
    assert (await bash(ctx, "true")).text == ""


async def test_command_is_stopped_before_the_timeout_of_its_step(ctx: OperationContext) -> None:
    with within(4):
        result = await bash(replace(ctx, timeout=4), "trap '' TERM; echo begun; sleep 67.07")
    assert result.text == "begun\n[stopped after 2 s]\n[exit 137]"
    assert not result.ok
    assert result.evidence["timed_out"]


async def test_colours_and_progress_are_left_out_and_other_controls_are_visible(
    ctx: OperationContext,
) -> None:
    printed = r"printf 'a\033[31mred\033[0m\a\r\n 10%%\r 90%%\rdone\n'"
    assert (await bash(ctx, printed)).text == "ared␇\r\ndone"


async def test_a_pipe_fails_where_a_program_in_it_does(ctx: OperationContext) -> None:
    failed = await bash(ctx, "(echo 1 failed; exit 3) | cat")
    assert (failed.ok, failed.text) == (False, "1 failed\n[exit 3]")
    looked = await bash(ctx, "cd . && yes | head -1")
    assert (looked.ok, looked.text) == (True, "y")


@boxed
@pytest.mark.parametrize("allowed", [False, True])
async def test_network_follows_the_setting(ctx: OperationContext, allowed: bool) -> None:
    result = await bash(replace(ctx, sandbox=BOXED, network=allowed), "readlink /proc/self/ns/net")
    assert (result.text == str(Path("/proc/self/ns/net").readlink())) is allowed


@boxed
async def test_sandbox_protects_paths_of_the_workspace(ctx: OperationContext) -> None:
    put(ctx, "state/a", "old")
    ctx = replace(ctx, sandbox=BOXED, protected=(ctx.folder.resolve() / "state",))
    result = await bash(ctx, "echo new > state/a")
    assert not result.ok
    assert (ctx.folder / "state/a").read_text() == "old"


# ---- the markdown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["read", "write", "bash"])
def test_builtins_are_in_the_catalogue_with_their_code(name: str) -> None:
    catalogue = Catalogue([SYSTEM])
    tool = catalogue.get(name)
    assert tool.function is {"read": read, "write": write, "bash": bash}[name]
    assert len(tool.description.split()) <= 12
    assert tool.body.strip()
    assert set(tool.required) <= set(tool.args)
    assert not tool.problem(tool.sample["args"])
