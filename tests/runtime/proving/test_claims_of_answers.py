"""What an answer says that nothing shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.proving.claims import claims_tests, unsupported

TASK = "Fix the bug in `parse_date` that issue 4711 names."
SEEN = ["src/dates.py\ndef parse_date(text):\n    return Date.of(text)", "3 passed, 17 skipped", "--strict"]


@pytest.mark.parametrize(
    ("answer", "loose"),
    [
        ("`parse_date` of issue 4711 uses `Date.of`, see `src/dates.py:2`.", []),
        ("I ran 17 tests; 3 of 4 paths are new.", []),
        ("I ran 42 tests in 0.25 s.", ["0.25", "42"]),
        ("`parse_time` is fixed.", ["parse_time"]),
        ("See 'src/times.py' and \"src/dates.py\".", ["src/times.py"]),
        ("`dates/src.py` has it.", ["dates/src.py"]),
        ("`date.of` takes `--strict` and `x`.", []),
        ("Run `parse_date --verbose`.", ["parse_date --verbose"]),
        ("```python\nunknown_name(99)\n```\nThat is all.", []),
        ("Run `parse_date RUN` with `RUN`.", ["RUN"]),
        ("See ./src/dates.py or `./src/dates.py`.", []),
        ("", []),
    ],
)
def test_what_stands_nowhere_is_named(answer: str, loose: list[str]) -> None:
    assert unsupported(answer, TASK, SEEN) == loose


@given(st.text(max_size=200))
def test_an_answer_that_repeats_a_result_is_supported(answer: str) -> None:
    assert unsupported(answer, "", [answer]) == []


@given(st.text(max_size=100), st.text(max_size=100))
def test_what_is_named_stands_in_the_answer(answer: str, seen: str) -> None:
    for each in unsupported(answer, "", [seen]):
        assert each.isdecimal() or "." in each or each in answer


@pytest.mark.parametrize(
    "answer",
    [
        *("All tests pass.", "The tests are passing now.", "It is fixed and the test suite passes."),
        *(
            "All green!",
            "Fixed; pytest passes.",
            "12 passed.",
            "The suite is green",
            "All tests pass with no failures.",
        ),
        "I did not change the API. The new test succeeds.",
        "The old code was not right, but all tests pass.",
        *(
            "The tests are ok.",
            "All test cases pass.",
            "The test file passes with the new data.",
            "Specs are ok.",
        ),
        *(
            "The test data is ok and the tests pass.",
            "It is ok to merge, all tests pass.",
            "All of the tests pass.",
        ),
    ],
)
def test_a_claim_about_tests_is_recognised(answer: str) -> None:
    assert claims_tests(answer)


@pytest.mark.parametrize(
    "answer",
    [
        *("The tests do not pass.", "I did not run the tests.", "Run pytest to see whether the tests pass."),
        *(
            "The tests should pass.",
            "3 tests fail.",
            "Two tests fail and the others pass.",
            "I added a test.",
        ),
        *("Pass the date to the function.", "The test isn't green yet.", "None of the tests passes."),
        *("", "The latest value passes through.", "If the suite passes, merge it.", "0 passed"),
        *(
            "The test data is ok.",
            "The spec is ok to publish.",
            "The spec is OK.",
            "The names of the tests are ok.",
        ),
        *("The test environment is green.", "It is ok to test this.", "The test-server is ok, too."),
    ],
)
def test_other_sentences_claim_nothing(answer: str) -> None:
    assert not claims_tests(answer)
