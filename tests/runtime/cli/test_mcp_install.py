"""`fractal mcp install` adds one entry to a client's configuration and leaves everything else as it is."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import REPOSITORY, Command
from in_process import Ran
from terminal import Terminal
from warm import run

from kernel.errors import ConfigurationError, Exit
from runtime.cli.mcp_install import CLIENTS, merged

FILES = {
    "claude": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "zed": ".config/zed/settings.json",
}
KEYS = {"claude": "mcpServers", "cursor": "mcpServers", "vscode": "servers", "zed": "context_servers"}
Install = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def install(fractal: Command, home: Path) -> Install:
    """The command with a home directory of its own."""

    def call(client: str, *words: str) -> Ran:
        env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        return fractal("mcp", "install", "--client", client, *words, env=env)

    return call


@pytest.mark.parametrize("client", FILES)
def test_the_entry_is_written_to_the_clients_own_file(
    install: Install, home: Path, fractal: Command, client: str
) -> None:
    assert set(FILES) == set(CLIENTS)
    shown = install(client, "--print")
    assert shown.exit == 0 and str(home / FILES[client]) in shown.err and not list(home.rglob("*.json"))
    asked = install(client)
    assert asked.exit == 3 and "nothing was written" in asked.err and not list(home.rglob("*.json"))
    assert install(client, "--yes").exit == 0
    written = json.loads((home / FILES[client]).read_text())
    assert written == json.loads(shown.out)
    assert written[KEYS[client]]["fractal"]["args"][-3:] == ["-C", str(fractal.folder), "mcp"]
    assert Path(written[KEYS[client]]["fractal"]["command"]).is_absolute()
    assert "registered already" in install(client, "--yes").err


@pytest.mark.skipif(sys.platform == "darwin", reason="VS Code has its settings elsewhere there")
def test_what_is_in_the_file_stays_and_a_backup_is_kept(install: Install, home: Path) -> None:
    path = home / FILES["zed"]
    path.parent.mkdir(parents=True)
    others = '"context_servers": {"other": {"command": "x"}}'
    before = f'\ufeff{{\r\n\t"theme": "Öl",\r\n\t"size": 1.5,\r\n\t{others},\r\n\t"z": []\r\n}}\r\n'
    path.write_bytes(before.encode())
    path.chmod(0o640)
    assert install("zed", "--yes").exit == 0
    text = path.read_bytes().decode()
    assert text.startswith('\ufeff{\r\n\t"theme": "Öl",') and "\n\n" not in text
    data, old = json.loads(text.removeprefix("\ufeff")), json.loads(before.removeprefix("\ufeff"))
    del data["context_servers"]["fractal"]
    assert data == old and list(data) == list(old)
    (backup,) = path.parent.glob("settings.json.*.bak")
    assert backup.read_bytes() == before.encode()
    assert {path.stat().st_mode & 0o777, backup.stat().st_mode & 0o777} == {0o640}


def test_a_link_stays_a_link(install: Install, home: Path) -> None:
    real = home / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_text('{"mcpServers": {}}')
    (home / ".cursor").mkdir()
    (home / FILES["cursor"]).symlink_to(real)
    assert install("cursor", "--yes").exit == 0
    assert (home / FILES["cursor"]).is_symlink() and "fractal" in json.loads(real.read_text())["mcpServers"]


def test_another_entry_of_the_name_is_replaced_with_a_warning(install: Install, home: Path) -> None:
    (home / FILES["claude"]).write_text(
        '{"mcpServers": {"fractal": {"command": "old"}}, "n": 12345678901234567890}'
    )
    ran = install("claude", "--yes")
    assert "this replaces the entry fractal" in ran.err
    data = json.loads((home / FILES["claude"]).read_text())
    assert data["mcpServers"]["fractal"]["command"] != "old" and data["n"] == 12345678901234567890


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'// mine\n{"theme": 1}\n', "line 1 is not plain JSON (comments and trailing commas are not)"),
        (b'{\n "a": 1, // mine\n}', "line 2 is not plain JSON"),
        (b'{"a": [1,],}', "line 1 is not plain JSON"),
        (b"[]", "it is not an object"),
        (b'{"context_servers": []}', "context_servers is not an object"),
        (b'{"a": 1, "a": 2}', "a key is there twice"),
        (b'{"a": 1e400}', "the number 1e400 would be written in another form"),
        (b'{"a": 0.10}', "the number 0.10 would be written in another form"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"a": "\xff"}', "it is not UTF-8 text"),
        (b"[" * 100_000, ""),
    ],
)
def test_what_would_lose_something_is_refused_with_what_to_add(
    install: Install, home: Path, raw: bytes, why: str
) -> None:
    path = home / FILES["zed"]
    path.parent.mkdir(parents=True)
    path.write_bytes(raw)
    ran = install("zed", "--yes")
    assert ran.exit == Exit.CONFIGURATION and why in ran.err and str(path) in ran.err
    assert "add the entry above by hand" in ran.err and json.loads(ran.out)["context_servers"]["fractal"]
    assert path.read_bytes() == raw and [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("raw", [b"", b" \n", b"{}"])
def test_an_empty_file_becomes_one_with_the_entry(raw: bytes) -> None:
    assert json.loads(merged(raw, "servers", {"command": "x"}, Path("f"))) == {
        "servers": {"fractal": {"command": "x"}}
    }


def test_a_file_that_cannot_be_read_or_written_is_named(install: Install, home: Path) -> None:
    (home / ".claude.json").mkdir()
    assert "cannot be read" in install("claude", "--yes").err
    (home / ".cursor").write_text("")
    ran = install("cursor", "--yes")
    assert ran.exit == Exit.CONFIGURATION and ".cursor" in ran.err


def test_two_at_once_write_the_entry_and_lose_nothing(home: Path) -> None:
    from runtime.cli import mcp_install

    path = home / "settings.json"
    path.write_text('{"a": 1}')
    before = path.read_bytes()
    after = merged(before, "servers", {"command": "x"}, path)
    path.write_text('{"a": 2}')
    with pytest.raises(ConfigurationError, match="changed meanwhile; nothing was written"):
        mcp_install._write(path, before, after)
    assert path.read_text() == '{"a": 2}'


def test_without_the_sdk_nothing_is_registered(fractal: Command, home: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None\nfrom runtime.cli import main; main()"
    words = ["mcp", "install", "--client", "cursor", "--yes"]
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    ran = run(
        [sys.executable, "-c", code, *words], env=env, cwd=fractal.folder, capture_output=True, text=True
    )
    assert ran.returncode == Exit.CONFIGURATION and "pip install 'fractal-runtime[mcp]'" in ran.stderr
    assert not list(home.rglob("*.json"))


def test_without_a_command_on_the_path_the_module_is_registered(fractal: Command, home: Path) -> None:
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(REPOSITORY), "PATH": ""}
    ran = run(
        [sys.executable, "-m", "runtime.cli", "mcp", "install", "--client", "cursor", "--print"],
        env=env,
        cwd=fractal.folder,
        capture_output=True,
        text=True,
    )
    entry = json.loads(ran.stdout)["mcpServers"]["fractal"]
    assert [entry["command"], *entry["args"][:3]] == [sys.executable, "-P", "-m", "fractal"]


def test_a_person_at_a_terminal_is_asked(fractal: Command, home: Path) -> None:
    command = [sys.executable, "-m", "runtime.cli", "mcp", "install", "--client", "cursor"]
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    terminal = Terminal(command, fractal.folder, env)
    terminal.until("Write this? [y/N]")
    terminal.type("y\n")
    terminal.until("registered")
    assert terminal.finish() == 0
    assert (home / FILES["cursor"]).is_file()


def test_the_registered_command_is_a_server_of_the_folder(
    install: Install, fractal: Command, home: Path
) -> None:
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import stdio_client

    install("claude", "--yes")
    entry = json.loads((home / FILES["claude"]).read_text())["mcpServers"]["fractal"]

    async def ask() -> str:
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        started = mcp.StdioServerParameters(command=entry["command"], args=entry["args"], env=env, cwd=home)
        async with mcp.Client(stdio_client(started, errlog=sys.__stderr__)) as client:
            done = await client.call_tool("run", {"task": "count the lines of notes.txt"})
            return done.structured_content["result"]

    assert asyncio.run(ask()).startswith("2")
