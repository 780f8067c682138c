"""`python -m bench gate` on a part of CLINC150: its figures stay above a minimum."""

from __future__ import annotations

import pytest

from bench import gate
from bench.harness import data_file
from kernel.errors import UsageError


def questions() -> dict[str, list[gate.Question]]:
    try:
        data_file(gate.DATA)
    except UsageError as error:
        pytest.skip(f"{error}")
    return gate.questions("lexical", intents=40, every=2)


@pytest.mark.night
def test_known_intents_are_separated_from_none_and_the_pieces_help() -> None:
    splits = questions()
    whole = gate.measure_splits(splits, "lexical")
    assert whole["right_type"] > 0.9
    assert whole["in_scope"] > 0.88
    assert whole["auroc"] > 0.94
    assert whole["out_of_scope_recall"] > 0.55
    bare = gate.measure_splits(splits, "lexical", gate.PIECES["all three"])
    assert bare["right_type"] < whole["right_type"] and bare["auroc"] < whole["auroc"]


@pytest.mark.night
def test_the_figures_have_the_documented_keys() -> None:
    questions()
    figures = gate.measure_embedders(["lexical"], pieces=True, intents=5, every=4)
    assert {"in_scope", "out_of_scope_recall", "auroc"} <= figures.keys()
    assert figures["in_scope"] == figures["embedder"]["lexical"]["in_scope"]
    rows = gate.table(figures).splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 3 + 1 + len(gate.PIECES)


def test_missing_data_are_reported_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRACTAL_DATA", "/nowhere")
    with pytest.raises(UsageError, match="FRACTAL_DATA"):
        data_file(gate.DATA)
