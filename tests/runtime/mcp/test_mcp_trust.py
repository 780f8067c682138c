"""A folder's `.mcp.json` starts nothing until this user has allowed it, entry by entry."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from in_process import Ran, in_process
from mcp_place import Place, fake

from runtime.workspace.trust import place as kept


@pytest.fixture
def stranger(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.delenv("FRACTAL_TRUST")
    return place


def fractal(folder: Path, *words: str) -> Ran:
    return in_process(folder, words, {**os.environ, "NO_COLOR": "1"})


def marked(folder: Path) -> dict[str, Any]:
    """A server that writes a file when it is started."""
    code = f"open({str(folder / 'started')!r}, 'w')"
    return {"command": sys.executable, "args": ["-c", code]}


def test_nothing_is_started_that_was_not_allowed(stranger: Place) -> None:
    stranger.write({"bad": marked(stranger.folder), "good": fake()})
    assert stranger.lists() == {}
    assert not (stranger.folder / "started").exists()
    assert any("fractal trust mcp:bad" in text for text in stranger.warnings)


def test_an_allowed_entry_is_used_until_it_is_changed(stranger: Place) -> None:
    stranger.write({"good": fake(), "bad": marked(stranger.folder)})
    listed = fractal(stranger.folder, "trust", "--json")
    assert {each["name"] for each in json.loads(listed.out)} == {"mcp:bad", "mcp:good"}
    assert fractal(stranger.folder, "trust", "mcp:good", "--yes").exit == 0
    assert any(name.startswith("good-") for name in stranger.lists())
    assert not (stranger.folder / "started").exists()
    stranger.write({"good": marked(stranger.folder)})
    assert stranger.lists() == {} and not (stranger.folder / "started").exists()


def test_the_users_own_file_needs_no_word(stranger: Place) -> None:
    own = kept().with_name("mcp.json")
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": {"good": fake()}}))
    assert any(name.startswith("good-") for name in stranger.lists())


def test_a_name_that_does_not_wait_for_trust_is_an_error(stranger: Place) -> None:
    stranger.write({"good": fake()})
    ran = fractal(stranger.folder, "trust", "mcp:other")
    assert ran.exit == 2 and "only for: mcp:good" in ran.err


def test_a_broken_trust_file_is_reported(stranger: Place) -> None:
    stranger.write({"good": fake()})
    kept().parent.mkdir(parents=True, exist_ok=True)
    kept().write_text("{")
    ran = fractal(stranger.folder, "tools", "ls")
    assert ran.exit == 3 and str(kept()) in ran.err and "fix or remove it" in ran.err
