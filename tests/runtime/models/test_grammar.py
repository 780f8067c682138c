"""The grammar of a schema, without a model: the order of keys, and what has none."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_cpp")

from runtime.models.grammar import grammar


def test_keys_stand_in_the_order_in_which_the_form_names_them():
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("b", "a", "z")}}
    text = grammar({**schema, "required": ["a", "b", "z"]}, 'reply with {"z": …, "a": …}').text
    chain = [text.index(f"{name}-kv", text.index("root ::=")) for name in ("z", "a", "b")]
    assert chain == sorted(chain)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/None"},
        {"type": "tuple"},
        {"type": "object", "properties": {"a": {"x": 1}}},
    ],
)
def test_a_schema_that_the_library_does_not_know_is_refused(schema):
    with pytest.raises(ValueError, match=r"llama\.cpp cannot make it"):
        grammar(schema)


def test_the_reserve_grows_with_what_must_be_said():
    short = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    long = {"type": "object", "properties": {f"key_{n}": short for n in range(9)}, "required": ["key_8"]}
    assert grammar(short).reserve < 40
    assert 200 < grammar(long).reserve < 500
