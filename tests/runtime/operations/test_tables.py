"""csv and json: questions about data, answered exactly or with a sentence."""

from __future__ import annotations

import csv as csvlib
import io
import json as jsonlib
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.operations import figures
from runtime.operations.paths import query_json
from runtime.operations.tables import query_csv, read_table

SALES = 'region,Amount,the note\nnorth,"1,200.50",big one\nsouth,10,\nNorth,5,x\neast,,y\n'


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("sum amount", "1215.5"),
        ("total of Amount", "1215.5"),
        ("average amount", "405.166666667"),
        ("median amount", "10"),
        ("max amount where region = south", "10"),
        ("min amount where region = NORTH", "5"),
        ("count", "4"),
        ("count rows where amount > 5", "2"),
        ("count amount", "3"),
        ("header", "region\nAmount\nthe note"),
        ("rows where amount > 10", 'region,Amount,the note\nnorth,"1,200.50",big one'),
        ("columns the note, region | first 1", "the note,region\nbig one,north"),
        ("sort by amount desc | columns amount", 'Amount\n"1,200.50"\n10\n5\n""'),
        ("top 2 by amount | columns region", "region\nnorth\nsouth"),
        ("bottom 1 by amount | columns region", "region\nNorth"),
        ("last 2 | columns region", "region\nNorth\neast"),
        ("unique region", "region\neast\nNorth\nnorth\nsouth"),
        ("count by region | sort by count | first 1", "region,count\neast,1"),
        ("average amount by region", "region,average of Amount\neast,\nNorth,5\nnorth,1200.5\nsouth,10"),
        ('rows where the note contains "one" | columns region', "region\nnorth"),
        ("rows where the note is empty | columns region", "region\nsouth"),
        ("rows where region in (south, east) and not amount = 10 | columns region", "region\neast"),
        ("rows where (region = south or region = east) and amount is not empty | count", "1"),
        ("rows where amount > 1,000 | count", "1"),
        ("rows where region starts with n | count", "2"),
        ("rows where amount >= '10' | count", "2"),
        ("where region != south | count", "3"),
        ('sum "Amount" where "the note" = "big one"', "1200.5"),
    ],
)
def test_questions_about_a_table(bench, query, shown):
    bench.put("sales.csv", SALES)
    assert bench.call(query_csv, path="sales.csv", query=query).text == shown


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "the query is empty"),
        ("frobnicate", "write header, count"),
        ("sum nope", "there are region, Amount, the note"),
        ("sum the note", "'big one' is not a number"),
        ("rows where amount >", "cannot read 'the end'"),
        ("rows where", "cannot be read"),
        ("rows where " + "(" * 100, "brackets in one another"),
        ("count | sum amount", "needs a table"),
        ("average amount where region = mars", "no numbers"),
        ("rows where a" + "x" * 3_000, "longer than"),
    ],
)
def test_questions_that_cannot_be_answered(bench, query, said):
    assert said in bench.fails(query_csv, text=SALES, query=query)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2,3\n", "line 2 has 3 cells, the header 2"),
        ('a,b\n"1,2\n', "line 2"),
        (b"a,b\n\xff,1\n", "not UTF-8"),
        (b"a\0b", "binary"),
    ],
)
def test_broken_tables_are_told_with_their_line(bench, content, said):
    bench.put("a.csv", content)
    assert said in bench.fails(query_csv, path="a.csv", query="count")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(bench, delimiter):
    bench.put("a.csv", f"\ufeffa{delimiter}b\r\n1{delimiter}2\r\n")
    assert bench.call(query_csv, path="a.csv", query="sum b").text == "2"


def test_names_of_columns_that_are_twice_there_are_refused_when_meant(bench):
    assert "2 columns have this name" in bench.fails(query_csv, text="a,a\n1,2\n", query="sum a")


def test_the_answer_can_be_written(bench):
    bench.call(query_csv, text=SALES, query="columns region", to="out/r.csv")
    assert bench.text("out/r.csv") == "region\nnorth\nsouth\nNorth\neast\n"
    bench.call(query_csv, text=SALES, query="count", to="n.txt")
    assert bench.text("n.txt") == "4\n"


def test_ten_megabytes_are_answered_quickly(bench):
    bench.put("big.csv", "a,b\n" + "".join(f"{n},{n * 7 % 13}.5\n" for n in range(900_000)))
    began = time.monotonic()
    assert bench.call(query_csv, path="big.csv", query="sum a where b < 5").evidence["numbers"] == 346_155
    assert time.monotonic() - began < 15


_cells = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(st.lists(_cells, min_size=3, max_size=3), max_size=6))
def test_a_table_is_read_as_it_was_written(rows):
    out = io.StringIO()
    csvlib.writer(out, lineterminator="\n", quoting=csvlib.QUOTE_ALL).writerows([["a", "b", "c"], *rows])
    assert read_table(out.getvalue(), "t").rows == rows


_decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12)


@given(st.lists(_decimals, max_size=20))
def test_sums_are_exact(numbers):
    assert figures.total(numbers) == sum((Fraction(each) for each in numbers), Fraction(0))


PEOPLE = (
    '{"people":[{"name":"Ann","age":30,"x.y":1.10},{"name":"Bob","age":41}],"n":12345678901234567890,"e":[]}'
)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("people[0].name", "Ann"),
        ("$.people[-1].age", "41"),
        ("people.1.age", "41"),
        ("people[*].name", "Ann\nBob"),
        ("people[].age | sum", "71"),
        ("keys", "people\nn\ne"),
        ("people | length", "2"),
        ("length of people", "2"),
        ("people[0] | keys", "name\nage\nx.y"),
        ('people[0]["x.y"]', "1.10"),
        ("people[0]['x.y'] | type", "number"),
        ("n", "12345678901234567890"),
        ("e", "[]"),
        ("people[1]", '{\n  "name": "Bob",\n  "age": 41\n}'),
    ],
)
def test_places_in_json(bench, query, shown):
    bench.put("p.json", PEOPLE)
    assert bench.call(query_json, path="p.json", query=query).text == shown


@pytest.mark.parametrize(
    ("text", "query", "said"),
    [
        (PEOPLE, "people[5]", "the list has 2"),
        (PEOPLE, "nope", "there are people, n, e"),
        (PEOPLE, "people.name", "write [0]"),
        (PEOPLE, "n.x", "has no parts"),
        (PEOPLE, "people[", "cannot read"),
        (PEOPLE, "a b", "cannot read"),
        (PEOPLE, "people | shout", "none of keys"),
        (PEOPLE, "people | sum", "not all items are numbers"),
        (PEOPLE, "n | length", "has no length"),
        ("{", "keys", "line 1, column 2"),
        ("[1] x", "[0]", "extra data"),
        ("[" * 100_000, "length", "nested too deeply"),
        ("1" * 5_000, "type", "more than 4,000 digits"),
        (PEOPLE, "x" * 2_000, "longer than"),
    ],
)
def test_what_is_not_in_json_is_said(bench, text, query, said):
    assert said in bench.fails(query_json, text=text, query=query)


def test_json_lines_are_a_list(bench):
    bench.put("a.jsonl", '{"a": 1}\n{"a": 2}\n')
    assert bench.call(query_json, path="a.jsonl", query="[*].a").text == "1\n2"


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=10), _values)
def test_any_key_can_be_named(key, value):
    from runtime.operations.paths import _parts, _walk

    steps, ends = _parts(f"[{jsonlib.dumps(key)}]") if "|" not in key else ([key], [])
    assert _walk({key: value}, steps, "q") == value
    assert ends == []
