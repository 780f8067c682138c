"""Settings files as lines `path = value`: found in four formats, and changed without touching the rest."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runtime.models.micro.settings import changed, settings, view

JSON = '{\n  "name": "shop",\n  "mail": {\n    "host": "a.example",\n    "port": 25\n  },\n  "on": true\n}\n'
YAML = (
    "name: shop  # the shop\nmail:\n  host: a.example\n  port: 25\n"
    "zones:\n  - id: z1\n    max: 30\n  - id: z2\n    max: 28\n"
)
TOML = 'name = "shop"\n\n[mail]\nhost = "a.example"\nport = 25 # usual\n'
INI = "; settings\n[mail]\nhost = a.example\nport=25\n\n[web]\nport = 80\n"


@pytest.mark.parametrize("text", [JSON, YAML, TOML, INI])
def test_values_are_found_by_their_path(text: str):
    found = {each.path: each.value for each in settings(text)}
    assert found["mail.port"] == "25"
    assert found["mail.host"].strip('"') == "a.example"


def test_items_of_a_list_are_named_by_their_first_value():
    assert "zones.z2.max = 28" in view(settings(YAML))


@pytest.mark.parametrize(
    ("text", "suffix", "old", "new"),
    [
        (JSON, "json", '"port": 25', '"port": 587'),
        (YAML, "yaml", "  port: 25", "  port: 587"),
        (TOML, "toml", "port = 25 # usual", "port = 587 # usual"),
        (INI, "ini", "port=25", "port=587"),
    ],
)
def test_only_the_stated_value_changes(text: str, suffix: str, old: str, new: str):
    assert changed(text, settings(text), "mail.port = 587", suffix) == text.replace(old, new)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("mail.host = b.example", "b.example"),
        ('mail.host: "b.example"', "b.example"),
        ("- `mail.host = b.example`", "b.example"),
        ("```\nmail.host = 'b.example',\n```", "b.example"),
        ("host = b.example", "b.example"),
        ("unknown.key = 1", "a.example"),
        ("I would change the host.", "a.example"),
    ],
)
def test_forms_of_a_reply(reply: str, value: str):
    assert json.loads(changed(JSON, settings(JSON), reply, "json"))["mail"]["host"] == value


KEYS = st.text("abcdefgh_", min_size=1, max_size=6)
VALUES = st.one_of(
    st.integers(0, 999), st.booleans(), st.text("abc xyz.-/", min_size=1, max_size=8).map(str.strip)
)
TREES: Any = st.dictionaries(KEYS, st.one_of(VALUES, st.dictionaries(KEYS, VALUES, min_size=1)), min_size=1)


@given(TREES, st.data())
def test_a_change_of_any_json_value_is_that_change_alone(tree: dict[str, Any], data: st.DataObject):
    text = json.dumps(tree, indent=2)
    listed = settings(text)
    paths = [each.path for each in listed]
    one = data.draw(st.sampled_from(listed)) if listed else None
    if (
        one is None
        or paths.count(one.path) > 1
        or one.path.count(".") != (1 if isinstance(tree.get(one.path.split(".")[0]), dict) else 0)
    ):
        return
    after = json.loads(changed(text, listed, f"{one.path} = 12345", "json"))
    expected = json.loads(text)
    *above, key = one.path.split(".")
    place = expected[above[0]] if above else expected
    place[key] = "12345" if isinstance(place[key], str) else 12345
    assert after == expected


def test_nothing_is_found_in_prose_and_nothing_breaks():
    for text in ("", "\n\n", "# Title\n\nSome words: and more.\n", "{", "[[[", "a:\n  - b\n", "\x00: 1"):
        settings(text)
        assert changed(text, settings(text), "a = 1", "json") is not None


def test_yaml_and_toml_stay_readable():
    assert yaml.safe_load(changed(YAML, settings(YAML), "zones.z2.max = 31", "yaml"))["zones"][1]["max"] == 31
    assert tomllib.loads(changed(TOML, settings(TOML), 'mail.host = "b c"', "toml"))["mail"]["host"] == "b c"
