"""`python -m bench store` measures every operation at each size."""

from __future__ import annotations

from bench import store


def test_each_size_has_its_figures() -> None:
    figures = store.measure([40, 300])
    assert list(figures["records"]) == ["40", "300"]
    for each in figures["records"].values():
        assert 0 < each["p50_ms"] <= each["p95_ms"]
        assert each["mb"] > 10
        for name in store.OPERATIONS:
            assert 0 < each[name]["p50_ms"] <= each[name]["p95_ms"]
    rows = store.table(figures).splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert rows[2].startswith("| 40 |") and rows[-1].startswith("| goal |")
