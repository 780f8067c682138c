"""The opening of a small model's program: it runs, and its variables hold what the files hold."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playing import put

from runtime.models.micro.opening import continued, opening
from runtime.models.micro.task import Task

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), max_size=8)


def variables(text: str, folder: Path) -> dict[str, Any]:
    """What the program has after its opening, run in the folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        found: dict[str, Any] = {}
        exec(text, found)
        return found
    finally:
        os.chdir(before)


def begun(folder: Path, text: str, *names: str, **options: bool) -> dict[str, Any]:
    files = tuple(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())
    return variables(opening(Task(text, folder, files), names, **options), folder)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(CELLS, CELLS), max_size=4), st.sampled_from(",;\t"))
def test_any_table_is_read_as_the_rows_that_it_has(rows: list[tuple[str, str]], mark: str) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=mark).writerows([("name", "value"), *rows])
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "t.csv").write_text(written.getvalue(), "utf-8", newline="")
        found = begun(Path(name), "", "t.csv")
    assert [tuple(row.values()) for row in found["t"]] == rows


@pytest.mark.parametrize("value", [{"a": 1}, [{"a": 'x"\n'}, {"b": 2}], [], "text", 7, None])
def test_json_is_read(tmp_path: Path, value: object) -> None:
    put(tmp_path, "data.json", json.dumps(value))
    assert begun(tmp_path, "", "data.json")["data"] == value


def test_a_broken_document_and_other_files_are_lines(tmp_path: Path) -> None:
    put(tmp_path, "broken.json", "{\n")
    put(tmp_path, "a b.log", "one\ntwo\n")
    found = begun(tmp_path, "", "broken.json", "a b.log")
    assert (found["broken"], found["a_b"]) == (["{"], ["one", "two"])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a,b\n1,2,3\n4,5\n", {"a": "1", "b": "2", None: ["3"]}),
        ("a,b\n1\n", {"a": "1", "b": None}),
        ('"a;b;c",d\n1,2\n', {"a;b;c": "1", "d": "2"}),
        ("\ufeffa,b\n1,2\n", {"a": "1", "b": "2"}),
        ("", None),
    ],
    ids=["more cells than the header", "fewer cells", "delimiters in quotes", "byte order mark", "empty"],
)
def test_an_odd_table_stops_no_run(tmp_path: Path, text: str, first: object) -> None:
    put(tmp_path, "odd.csv", text)
    for numeric in (False, True):
        found = begun(tmp_path, "", "odd.csv", numeric=numeric)["odd"]
        row = dict(found[0]) if found and isinstance(found[0], dict) else next(iter(found), None)
        if not numeric:
            assert row == first


def test_a_table_with_a_cell_too_long_for_csv_is_lines(tmp_path: Path) -> None:
    before = csv.field_size_limit(131_072)
    try:
        put(tmp_path, "odd.csv", "a,b\n1," + "x" * 200_000 + "\n")
        assert begun(tmp_path, "", "odd.csv")["odd"][0] == "a,b"
    finally:
        csv.field_size_limit(before)


def test_half_of_a_surrogate_pair_reaches_no_prompt(tmp_path: Path) -> None:
    put(tmp_path, "odd.json", '["\\ud800"]')
    opening(Task("", tmp_path, ("odd.json",)), ["odd.json"]).encode("utf-8")


def test_columns_of_numbers_are_numbers_for_an_answer_and_text_for_a_copy(tmp_path: Path) -> None:
    put(tmp_path, "sales.csv", "code,units\n007,3\nx,4.5\n")
    assert begun(tmp_path, "", "sales.csv", numeric=True)["sales"][0] == {"code": "007", "units": 3.0}
    assert begun(tmp_path, "", "sales.csv")["sales"][0] == {"code": "007", "units": "3"}


@pytest.mark.parametrize("name", ["list.csv", "class.csv", "2024.csv", "csv.csv", "file.csv", "ünï-code.csv"])
def test_a_variable_hides_no_name_that_the_opening_needs(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, "a,b\n1,2\n")
    put(tmp_path, f"other/{name}", "a,b\n3,4\n")
    found = begun(tmp_path, "", name, f"other/{name}")
    held = [value for value in found.values() if isinstance(value, list)]
    assert sorted(row["a"] for rows in held for row in rows) == ["1", "3"]


def test_folders_of_new_files_and_named_folders_are_made(tmp_path: Path) -> None:
    put(tmp_path, "downloads/a.pdf", "x")
    found = begun(tmp_path, "Move PDFs to downloads/papers and list them in lists/all.txt, and/or none.")
    assert (tmp_path / "downloads/papers").is_dir()
    assert (tmp_path / "lists").is_dir()
    assert not (tmp_path / "and").exists()
    assert found["files"] == [Path("downloads/a.pdf")]


def test_a_program_without_its_opening_gets_it_once(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "x\n")
    text = opening(Task("", tmp_path, ("a.txt",)), ["a.txt"])
    for program in ("print(a)\n", f"{text}print(a)\n"):
        assert continued(text, program).count("a = Path('a.txt')") == 1
