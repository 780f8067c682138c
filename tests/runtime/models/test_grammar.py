"""The grammar of a schema, without a model: numbers, and what can and cannot be said."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.models.grammar import fractions, grammar, integers

PART = re.compile(r'"((?:[^"\\]|\\.)*)"|(\[[^\]]*\]|[|()?*+]|\{[\d,]+\})|\s+')


def pattern(alternatives: list[str]) -> re.Pattern[str]:
    """Alternatives of a grammar that use no other rule, as a pattern."""
    return re.compile(
        PART.sub(lambda part: re.escape(part[1]) if part[1] else part[2] or "", " | ".join(alternatives))
    )


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(-1300, 1300), st.integers(0, 1500))
def test_whole_numbers_are_exactly_those_between_the_bounds(low, width):
    spelled = pattern(integers(low, low + width))
    for number in range(low - 30, low + width + 30):
        assert bool(spelled.fullmatch(str(number))) == (low <= number <= low + width), number


@given(st.integers(-(10**18), 10**18))
def test_a_bound_on_one_side_is_kept(bound):
    least, most = pattern(integers(bound, float("inf"))), pattern(integers(float("-inf"), bound))
    assert bool(least.fullmatch(str(bound))) == (bound > -(10**15)), "at most 15 digits"
    assert not least.fullmatch(str(bound - 1))
    assert bool(most.fullmatch(str(bound))) == (bound < 10**15)
    assert not most.fullmatch(str(bound + 1))


@settings(max_examples=examples(200))
@given(st.floats(-50, 50), st.floats(0.001, 20), st.data())
def test_fractions_lie_between_the_bounds(low, width, data):
    for rule in fractions(low, low + width):
        text = data.draw(
            st.from_regex(pattern([rule]), fullmatch=True, alphabet=st.characters(codec="ascii"))
        )
        assert low < float(text) < low + width


def test_numbers_have_no_leading_zeros():
    spelled = pattern(integers(0, 120))
    assert not any(spelled.fullmatch(text) for text in ("00", "01", "-0", "007", "121", "+1", ""))


def test_keys_stand_in_the_order_in_which_the_form_names_them():
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("b", "a", "z")}}
    text = grammar(schema, 'reply with {"z": …, "a": …}').text
    chain = [text.index(f'\\"{name}\\"') for name in ("b", "a", "z")]
    assert chain == sorted(chain)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}},
                "required": ["a"],
            },
            "3",
        ),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "at least 3"),
        ({"enum": []}, "no value"),
        ({"anyOf": []}, "alternatives"),
        ({"$ref": "#/$defs/None"}, "not in it"),
        (
            {
                "$ref": "#/$defs/A",
                "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}, "minItems": 1}},
            },
            "at least 1 and at most 0",
        ),
    ],
)
def test_a_schema_that_nothing_matches_is_refused(schema, message):
    with pytest.raises(ValueError, match=message):
        grammar(schema)


def test_the_reserve_grows_with_what_must_be_said():
    short = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    long = {"type": "object", "properties": {f"key_{n}": short for n in range(9)}, "required": ["key_8"]}
    assert grammar(short).reserve < 40
    assert 200 < grammar(long).reserve < 500
