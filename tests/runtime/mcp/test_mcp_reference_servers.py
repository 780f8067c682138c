"""The official reference servers (everything, filesystem, memory) are tools of runs."""

from __future__ import annotations

import json

import pytest
from mcp_place import Place
from playing import ACCEPT, plan

pytestmark = pytest.mark.night  # npm fetches them


@pytest.fixture
def place(tmp_path, monkeypatch, npm):
    """The folder in which `play` plays, with the three servers."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "tea.txt").write_text("green\nblack\n")
    place = Place(folder)
    place.write(
        {
            "everything": {"command": str(npm / "mcp-server-everything")},
            "files": {"command": str(npm / "mcp-server-filesystem"), "args": ["notes"]},
            "memory": {
                "command": str(npm / "mcp-server-memory"),
                "env": {"MEMORY_FILE_PATH": str(folder / "memory.json")},
            },
        }
    )
    return place


def test_a_run_reads_with_one_server_and_remembers_with_another(place, play):
    def notes(name):
        return str(place.folder / "notes" / name)

    remember = {
        "entities": [{"name": "tea", "entityType": "drink", "observations": ["{{ steps[1].result }}"]}]
    }
    steps = [
        {"tool": "files-read-text-file", "args": {"path": notes("tea.txt")}},
        {"tool": "memory-create-entities", "args": remember, "needs": [1]},
        {"tool": "memory-search-nodes", "args": {"query": "tea"}, "needs": [2]},
        {"tool": "everything-get-sum", "args": {"a": 2, "b": 40}, "needs": [3]},
        {"tool": "files-write-file", "args": {"path": notes("sum.txt"), "content": "{{ steps[4].result }}"}},
    ]

    def answer(ask):
        if ask.phase == "plan":
            success = [{"file": "notes/sum.txt", "has": "42"}, {"step": 3, "has": "black"}]
            return plan(*steps, success=success)
        return ACCEPT

    played = play(answer)
    assert played.result.exit == 0, played.root.steps
    assert (place.folder / "notes/sum.txt").read_text() == "The sum of 2 and 40 is 42."
    assert "green" in json.dumps((place.folder / "memory.json").read_text())
    assert [played.root.steps[n].evidence["server"] for n in (1, 2, 4)] == ["files", "memory", "everything"]


def test_everything_that_the_test_server_answers_becomes_a_result(place):
    tools = place.lists()
    assert place.warnings == []
    assert tools["everything-get-sum"].effects == ("read",)
    assert tools["files-write-file"].effects == ("write",)
    calls = [
        ("everything-echo", {"message": "grüß dich"}),
        ("everything-get-tiny-image", {}),
        ("everything-get-structured-content", {"location": "Chicago"}),
        ("everything-get-resource-links", {"count": 2}),
        ("everything-get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("everything-get-env", {}),
        ("everything-trigger-long-running-operation", {"duration": 1, "steps": 2}),
        ("files-read-text-file", {"path": "/etc/passwd"}),
    ]
    echo, image, structured, links, resource, env, long, outside = place.calls(*calls)
    assert echo.text == "Echo: grüß dich"
    assert "[image: image/png, " in image.text
    assert "temperature" in structured.text
    assert links.text.count("[link: ") == 2
    assert "[resource: " in resource.text
    assert not any(word in env.text for word in ("PYTEST", "VIRTUAL_ENV"))
    assert "Long running operation completed" in long.text
    assert (outside.ok, "denied" in outside.text.lower()) == (False, True)
