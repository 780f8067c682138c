"""Answers are compared as numbers, fractions, units and LaTeX, exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.benchmarks.answers import boxed, is_right


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", "42"),
        ("Ida has 42 pens left.", "42"),
        ("First 3, then 5, so in the end 42.", "42"),
        ("The answer is 40, in 5 boxes.", "40"),
        ("**Answer:** 7 boxes", "7"),
        ("The result: **7**", "7"),
        (r"so it is \boxed{\dfrac{1}{2}} of 9", "0.5"),
        (r"$\frac12$", r"\frac{1}{2}"),
        ("2 1/2", "2.5"),
        (r"2\frac{1}{2}", "5/2"),
        ("1,234", "1234"),
        (r"$1{,}000$", "1000"),
        (r"\$32,500", "32500"),
        ("−3", "-3"),
        ("50%", "50"),
        (r"50\%", "50%"),
        ("073", "73"),
        ("5 km", "5"),
        ("3 apples", "3 apple"),
        (r"18\text{ cm}^2", "18 cm²"),
        (r"\boxed{(1, \frac12)}", "(1,0.5)"),
        (r"\boxed{x=3}", "3"),
        (r"\boxed{2\sqrt{3}}", r"2\sqrt3"),
        (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}"),
        ("x^2+1", "x^2 + 1"),
        ("The answer is 5. No, the answer is 7.", "7"),
        ("The answer is 5, for the result is positive.", "5"),
        (r"\boxed{\{2, \frac12\}}", r"\{0.5, 2\}"),
    ],
)
def test_equal_answers_are_right(text: str, expected: str) -> None:
    assert is_right(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1"),
        ("0.33", "1/3"),
        ("5 km", "5 m"),
        ("50%", "0.5"),
        ("-3", "3"),
        ("12x", "12"),
        (r"2\sqrt{3}", "2"),
        ("10^5", "10"),
        ("3*4", "3"),
        ("[1,2)", "(1,2)"),
        ("(1,2)", "(1,2,3)"),
        ("1/0", "1"),
        ("9" * 9_999, "1"),
        (f"x{' ' * 9_997}x", "1"),
        (f"answer{'*' * 9_990}", "1"),
        (r"\boxed{41} or 42", "42"),
        ("The answer is 5. No, the answer is 7.", "5"),
        ("(2,1)", "(1,2)"),
        ("{1,1}", "{1,2}"),
    ],
)
def test_other_answers_are_wrong(text: str, expected: str) -> None:
    assert not is_right(text, expected)


def test_the_last_box_holds_its_inner_braces() -> None:
    assert boxed(r"\boxed{1} then \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r"\boxed{1") is None
    assert boxed("none") is None


@given(st.fractions(), st.text(alphabet="\\{}[]()$,. a1/", max_size=40))
def test_a_fraction_is_itself_and_hostile_text_does_no_harm(number: object, text: str) -> None:
    assert is_right(f"{number}", f"{number}")
    is_right(text, f"{number}")
    is_right(f"{number}", text)
