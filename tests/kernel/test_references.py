"""Results put into arguments: each reference on its own, and nothing else touched."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import OperationFailed
from kernel.phases import references
from kernel.references import substitute


@dataclass(frozen=True)
class Seen:
    result: str
    evidence: dict[str, Any] = field(default_factory=dict)


TEXT = st.text(max_size=60)
LITERALS = [
    "${{ matrix.python }}",
    "${#a[@]}",
    "{% raw %}",
    "{{ steps }}",
    "awk '{print $1}'",
    "f'{x}'",
    "{{x}}",
    "{#",
]


@given(
    result=TEXT,
    before=st.sampled_from(LITERALS),
    after=TEXT.filter(lambda t: "{{" not in t and "\\" not in t),
)
def test_a_reference_becomes_the_result_and_all_around_it_stays(result: str, before: str, after: str) -> None:
    filled = substitute({"a": [f"{before}{{{{ steps[1].result }}}}{after}"]}, {1: Seen(result)})
    assert filled == {"a": [before + result + after]}


@given(result=TEXT)
def test_a_result_is_never_searched_for_references(result: str) -> None:
    hostile = result + "{{ steps[2].result }}"
    assert substitute("{{ steps[1].result }}", {1: Seen(hostile), 2: Seen("secret")}) == hostile


@given(
    result=st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
)
def test_a_quoted_result_is_one_word_for_a_shell(result: str) -> None:
    line = substitute("printf %s {{ steps[1].result | sh }}", {1: Seen(result)})
    assert shlex.split(line)[2:] == [result]
    if "$" in result or "`" in result:
        ran = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
        assert ran.stdout.decode() == result


def test_a_result_put_into_a_command_does_not_run() -> None:
    line = substitute("printf %s {{ steps[1].result | sh }}", {1: Seen("$(touch PWNED)")})
    assert subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout == b"$(touch PWNED)"


def test_an_escaped_reference_is_literal() -> None:
    assert substitute(r"\{{ steps[1].result }}", {1: Seen("x")}) == "{{ steps[1].result }}"
    assert references(r"\{{ steps[1].result }}") == set()


def test_evidence_can_be_referred_to() -> None:
    assert substitute("{{ steps[1].evidence.exit }}", {1: Seen("", {"exit": 3})}) == "3"


@pytest.mark.parametrize(
    "reference",
    [
        "{{ steps[9].result }}",  # there is no such step
        "{{ steps[1].nothing }}",
        "{{ steps[1].result | no_such_filter }}",
        "{{ steps[1].__class__.__mro__ }}",
        "{{ steps[1].result * 999999999 }}",
        "{{ steps[1].result.__init__ }}",
    ],
)
def test_what_cannot_or_must_not_be_filled_in_is_refused(reference: str) -> None:
    with pytest.raises(OperationFailed, match="cannot be filled in"):
        substitute(reference, {1: Seen("x")})
