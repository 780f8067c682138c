"""References to results in arguments: the grammar, and substitution."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import within

from kernel.document.references import escaped, problem_in, references, renumbered, substitute
from kernel.errors import OperationFailed


@dataclass(frozen=True)
class Seen:
    result: str
    evidence: dict[str, Any] = field(default_factory=dict)


TEXT = st.text(max_size=60)
LITERALS = [
    "${{ matrix.python }}",
    "${{ steps.build.outputs.tag }}",
    "${#a[@]}",
    "{% raw %}",
    "{{ steps }}",
    "awk '{print $1}'",
    "f'{x}'",
    "{{x}}",
    "{#",
]
HOSTILE = st.lists(
    st.sampled_from(
        ["{{", "}}", " steps[1]", ".result", "\\", "|", "sh", "\n", "[0]", "earlier[2]", "9", " "]
    ),
    max_size=12,
).map("".join)


@given(
    result=TEXT,
    before=st.sampled_from(LITERALS),
    after=TEXT.filter(lambda t: "{{" not in t and "\\" not in t),
)
def test_reference_is_replaced_and_surrounding_text_kept(result: str, before: str, after: str) -> None:
    filled = substitute({"a": [f"{before}{{{{ steps[1].result }}}}{after}"]}, {1: Seen(result)})
    assert filled == {"a": [before + result + after]}


@given(result=TEXT | HOSTILE)
def test_results_are_not_searched_for_references(result: str) -> None:
    hostile = result + r"{{ steps[2].result }} \{{ steps[2].result }}"
    assert substitute("{{ steps[1].result }}", {1: Seen(hostile), 2: Seen("secret")}) == hostile


@given(text=TEXT | HOSTILE)
def test_escaped_text_round_trips(text: str) -> None:
    assert problem_in(escaped(text)) == ""
    assert references(escaped({"a": text})) == set()
    assert substitute(escaped([text]), {}) == [text]


class Asked(dict[int, Seen]):
    """Steps that record which of them were read."""

    def __init__(self) -> None:
        super().__init__({n: Seen("[[1]]") for n in range(100)})
        self.seen: set[int] = set()

    def __getitem__(self, n: int) -> Seen:
        self.seen.add(n)
        return super().__getitem__(n)


WHOLE = st.sampled_from(
    ["{{ steps[1].result }}", "{{\nsteps[20].result[0]}}", r"\{{ steps[3].result }}", "{{ x }}", "$"]
)


@given(text=st.lists(WHOLE | HOSTILE, max_size=6).map("".join))
def test_substituted_steps_are_those_found(text: str) -> None:
    if problem_in(text) or references(text, "earlier"):
        return
    asked = Asked()
    try:
        substitute(text, asked)
    except OperationFailed:  # a result has no such part
        return
    assert asked.seen == references(text)


@pytest.mark.parametrize("text", ["{{\nsteps[2].result\n}}", "{{steps[2].result}}", "{{\tsteps[2].result }}"])
def test_white_space_in_a_reference_is_ignored(text: str) -> None:
    assert references({"content": text}) == {2}
    assert substitute(text, {2: Seen("two")}) == "two"


def test_references_reach_evidence_and_json_results() -> None:
    seen = Seen(json.dumps({"users": [{"name": "Ann"}], "n": 2, "on": True}), {"exit": 3, "a": {"b": "c"}})
    expected = {
        "{{ steps[1].evidence.exit }}": "3",
        "{{ steps[1].evidence.a.b }}": "c",
        "{{ steps[1].result.users[0].name }}": "Ann",
        "{{ steps[1].result.n }}": "2",
        "{{ steps[1].result.on }}": "true",
        "{{ steps[1].result.users[0] }}": '{"name": "Ann"}',
    }
    assert {text: substitute(text, {1: seen}) for text in expected} == expected


@pytest.mark.parametrize(
    "reference",
    [
        "{{ steps[9].result }}",
        "{{ steps[1].result.users }}",
        "{{ steps[1].result[0] }}",
        "{{ steps[1].evidence.nothing }}",
        "{{ steps[1].evidence.__class__ }}",
        "{{ earlier[1].result }}",
    ],
)
def test_reference_to_a_missing_value_fails(reference: str) -> None:
    assert problem_in(reference) == ""
    with pytest.raises(OperationFailed, match="cannot be filled in"):
        substitute(reference, {1: Seen("x")})


@pytest.mark.parametrize(
    "reference",
    [
        "{{ steps[1].nothing }}",
        "{{ steps[1].evidence }}",
        "{{ steps[1] }}",
        "{{ steps.1.result }}",
        "{{ steps[1].result | trim }}",
        "{{ steps[1].result ~ steps[2].result }}",
        "{{ steps[1].result * 999999999 }}",
        "{{ steps[1].result.ljust(9e9) }}",
        "{{ steps[1].result" + " | upper" * 250 + " }}",
        "{{ steps[" + "9" * 5000 + "].result }}",
        "{{ steps[1].result",
        "{{ steps[i].result }}",
    ],
)
def test_invalid_reference_is_refused_with_the_right_form(reference: str) -> None:
    assert "{{ steps[1].result }}" in problem_in({"a": [reference]})
    with pytest.raises(OperationFailed, match="is no reference"):
        substitute(reference, {1: Seen("x"), 2: Seen("y")})


def test_reference_checks_are_fast() -> None:
    with within(2):
        for text in ("{{ steps[1].result" + ".a" * 100_000, "{{ " * 100_000, "{{" + " " * 200_000 + "steps["):
            problem_in(text)
            references(text)


# ---- shell commands --------------------------------------------------------------------------------------


def test_shell_commands_get_results_only_from_the_environment() -> None:
    assert references({"command": 'echo "$RESULT_1" <"${RESULT_12_FILE}"'}) == {1, 12}
    assert references({"content": "$RESULT_1"}) == set()
    for text in ("echo {{ steps[3].result }}", "echo '{{ steps[3].result | sh }}'"):
        assert '"$RESULT_' in problem_in({"command": text})
        with pytest.raises(OperationFailed, match="environment variable"):
            substitute({"command": text}, {3: Seen("x")})


# ---- numbers ---------------------------------------------------------------------------------------------


def test_step_numbers_of_a_plan_become_those_of_the_document() -> None:
    args = {
        "content": "{{ steps[1].result }} {{\nearlier[3].evidence.exit }} \\{{ steps[1].result }}",
        "command": 'cat "$RESULT_1_FILE"; echo "$EARLIER_3"',
    }
    moved = renumbered(args, lambda whose, n: n + 5 if whose == "steps" else n)
    assert moved == {
        "content": "{{ steps[6].result }} {{ steps[3].evidence.exit }} \\{{ steps[1].result }}",
        "command": 'cat "$RESULT_6_FILE"; echo "$RESULT_3"',
    }
