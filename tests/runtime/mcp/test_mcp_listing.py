"""What a server lists becomes tools with clean names and plain arguments, whatever it lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lanes import within
from mcp_place import fake

from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal
from runtime.mcp.client.configured import Entry
from runtime.mcp.client.listing import tools_of


def entry(name="it"):
    return Entry(name, Path("/work/.mcp.json"), "stdio", "0", "it")


def made(raw, server="it", taken=()) -> Tool:
    tools, troubles = tools_of(entry(server), [raw], taken)
    assert troubles == []
    return tools[0]


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "create_issue", "github-create-issue"),
        ("GitHub Enterprise", "createIssue", "git-hub-enterprise-create-issue"),
        ("@scope/fs", "read.file", "scope-fs-read-file"),
        ("1password", "get", "mcp-1password-get"),
        ("s", "Größe", "s-gr-e"),
    ],
)
def test_a_name_is_made_of_server_and_tool(server, tool, name):
    found = made({"name": tool, "inputSchema": {}}, server)
    assert found.name == name
    assert found.run == f"mcp: {server}/{tool}"


def test_long_names_are_cut_and_stay_different():
    pair = [{"name": "x" * 150 + end, "inputSchema": {}} for end in "ab"]
    names = [tool.name for tool in tools_of(entry(), pair)[0]]
    assert len(set(names)) == 2
    assert all(len(name) <= 64 and re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in names)


def test_a_name_that_is_taken_gets_a_number():
    found = tools_of(entry("count"), [{"name": "lines"}, {"name": "LINES"}], {"count-lines"})[0]
    assert [tool.name for tool in found] == ["count-lines-2", "count-lines-3"]


@pytest.mark.parametrize(
    ("hints", "effects", "idempotent"),
    [
        ({}, ("write", "network"), False),
        ({"readOnlyHint": True}, ("read", "network"), True),
        ({"readOnlyHint": True, "openWorldHint": False}, ("read",), True),
        ({"openWorldHint": False}, ("write",), False),
        ({"idempotentHint": True}, ("write", "network"), True),
        ({"readOnlyHint": "yes"}, ("write", "network"), False),
    ],
)
def test_effects_come_from_the_annotations(hints, effects, idempotent):
    tool = made({"name": "t", "inputSchema": {}, "annotations": hints})
    assert (tool.effects, tool.idempotent) == (effects, idempotent)


PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, "a", 1),
        ({"type": "integer"}, 3, "three"),
        ({"type": ["string", "null"]}, "a", 1),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3, "three"),
        ({"enum": ["a", "b"]}, "a", "c"),
        ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
        ({"$ref": "#/$defs/Person"}, {"name": "a"}, {"name": 1}),
        ({"type": "array", "items": {"$ref": "#/$defs/Person"}}, [{"age": 3}], [{"age": "x"}]),
        ({"type": "nonsense"}, 3, None),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 3, None),
        ({"$ref": "https://elsewhere.invalid/schema.json"}, 3, None),
        (True, 3, None),
    ],
)
def test_plain_arguments_are_checked_and_others_are_left_to_the_server(schema, good, bad):
    whole = {"type": "object", "properties": {"a": schema}, "$defs": {"Person": PERSON}}
    tool = made({"name": "t", "inputSchema": whole})
    assert tool.problem({"a": good}) == ""
    assert bad is None or tool.problem({"a": bad}) != ""
    assert tool.problem({"b": 1}) != ""


def test_arguments_that_are_not_plain_strings_are_described_in_the_line():
    items = {"type": "array", "items": {**PERSON, "required": ["name"]}}
    schema = {"properties": {"path": {"type": "string"}, "people": items, "how": {"enum": ["fast", "slow"]}}}
    tool = made({"name": "t", "description": "\n\n# Title\nmore", "inputSchema": schema})
    assert (
        tool.line
        == "it-t(path?, people?, how?): # Title (people: [{name: string, age?: integer}]; how: fast|slow)"
    )


def test_a_hostile_list_gives_harmless_tools(place):
    place.write({"bad": fake("hostile")})
    with within(5):
        tools = place.lists()
    expected = {"obey", "escape", "remote", "loop", "code", "pattern", "odd", "bare"}
    assert set(tools) == {f"bad-{name}" for name in expected}
    for tool in tools.values():
        assert tool.line.isprintable(), "nothing steers a terminal, nothing begins a line of its own"
        assert len(tool.line) < 500
        assert all(re.fullmatch(r"[\w$@.:-]+", name) for name in tool.args)
    assert tools["bad-code"].args == {}
    assert tools["bad-pattern"].problem({"a": "a" * 40 + "b"}) == "", "its pattern is not ours to run"
    assert len(place.warnings) == 3, "the names that are none"


def test_nothing_a_tool_says_of_itself_is_in_the_index(place):
    place.write({"bad": fake("hostile")})
    place.lists()
    names = [tool.name for tool in Fractal(place.folder).catalogue().ranked("obey the remote loop")]
    assert "bad-obey" in names
    assert "IGNORE" not in "".join(names)


def test_names_that_clash_stay_apart_and_ours_are_ours(place):
    place.write({"it": fake("clashing"), "count": fake("clashing")})
    tools = place.lists()
    ours = Fractal(place.folder).catalogue()
    assert {name for name in tools if name.startswith("it-")} == {
        "it-read-file",
        "it-read-file-2",
        "it-read-file-3",
        "it-read-file-4",
    }
    assert ours.tools["read"].run.startswith("python:")
    assert set(tools) <= set(ours.tools)
    wanted = {"it/read_file", "it/read-file", "it/readFile", "it/READ FILE"}
    assert {tool.run.removeprefix("mcp: ") for tool in tools.values() if "it/" in tool.run} == wanted


# ---- what is kept ----------------------------------------------------------------------------------------


def starts(place) -> int:
    log = place.folder / "starts"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_nothing_is_read_or_started_without_a_file(place):
    assert place.lists() == {}
    assert not (place.folder / ".fractal").exists()


def test_a_list_that_is_known_starts_no_server(place):
    place.write({"it": fake(env={"STARTS": "starts"})})
    first = place.lists()
    assert starts(place) == 1
    assert place.lists() == first
    assert {tool.name for tool in Fractal(place.folder).catalogue().tools.values()} >= set(first)
    assert starts(place) == 1


def test_an_entry_that_changed_is_asked_anew(place):
    place.write({"it": fake(env={"STARTS": "starts"})})
    place.lists()
    place.write({"it": fake("clashing", env={"STARTS": "starts"})})
    assert "it-read-file" in place.lists()
    assert starts(place) == 2


def test_a_list_is_asked_for_again_after_a_day_and_a_failure_after_minutes(place):
    place.write({"it": fake(env={"STARTS": "starts"}), "bad": fake("exits", env={"STARTS": "starts"})})
    place.lists()
    place.lists()
    assert starts(place) == 2
    for name, age in (("it", 90_000), ("bad", 400)):
        kept = place.folder / f".fractal/state/mcp/{name}.json"
        data = json.loads(kept.read_text())
        kept.write_text(json.dumps(data | {"at": data["at"] - age}))
    place.lists()
    assert starts(place) == 4


def test_a_failure_forgets_no_tools(place):
    script = place.folder / "server.py"
    script.write_text((Path(__file__).with_name("fake_server.py")).read_text())
    place.write({"it": {"command": fake()["command"], "args": [str(script)]}})
    before = place.lists()
    script.write_text("raise SystemExit('out of order')")
    kept = place.folder / ".fractal/state/mcp/it.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"at": 0}))
    assert place.lists() == before
    assert any("out of order" in each for each in place.warnings)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"digest": 1}', "\0"])
def test_a_damaged_list_is_asked_for_anew(place, damage):
    place.write({"it": fake()})
    before = place.lists()
    (place.folder / ".fractal/state/mcp/it.json").write_text(damage)
    assert place.lists() == before


def test_a_list_without_end_is_cut_off(place):
    place.write({"it": fake("endless-pages")})
    assert 1 < len(place.lists()) <= 50
