"""csv and json: questions about data, answered exactly or with a sentence."""

from __future__ import annotations

import csv as csvlib
import io
import json
import json as jsonlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from references import outcome

from runtime.operations.cells import objects_of
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
        ('rows where amount > "1,000" | count', "1"),
        ("rows where region starts with n | count", "2"),
        ("rows where amount >= '10' | count", "2"),
        ("where region != south | count", "3"),
        ("sum amount where amount > 10 by region", "region,sum of Amount\nnorth,1200.5"),
        ("sum amount by region where amount > 9", "region,sum of Amount\nnorth,1200.5\nsouth,10"),
        ("rows where amount > 4 sort by amount | columns amount", 'Amount\n5\n10\n"1,200.50"'),
        ("select sum(amount) from data where region = 'north'", "sum(amount)\n1200.5"),
        ('SELECT count(*) AS n FROM sales WHERE "the note" IS NULL', "n\n1"),
        ("with big as (select * from data where amount > 9) select region from big", "region\nnorth\nsouth"),
        ('sum "Amount" where "the note" = "big one"', "1200.5"),
    ],
)
def test_questions_about_a_table(bench, query, shown):
    bench.put("sales.csv", SALES)
    assert bench.call(query_csv, path="sales.csv", query=query).text == shown


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "cannot read 'the end'"),
        ("frobnicate", "write header, rows, count"),
        ("sum nope", "there are region, Amount, the note"),
        ("sum the note", "'big one' is not a number"),
        ("rows where amount = 1) or (amount = 2", "cannot read ') or"),
        ("rows where amount = 5 and", "cannot read the condition"),
        ("count where amount > 10 usd", "no Amount is '10 usd'"),
        ('count where amount > "10 usd"', "'10 usd' is not such a number"),
        ("count where region = south only", "no region is 'south only'"),
        ("top 1 by amount asc", "cannot read 'asc'"),
        ("first 2 sort by amount", "cannot read 'sort by amount'"),
        ("count where region = south sort by amount", "cannot read 'sort by amount'"),
        ("rows where note = empty", "there is no column 'note'"),
        ("rows where the note = empty", "write `is empty`"),
        ("rows where the note > 3 | count", "is not a number like the others"),
        ("rows where amount >", "cannot read 'the end'"),
        ("rows where", "cannot read 'the end'"),
        ("rows where " + "(" * 100, "cannot read the condition"),
        ("select nope from data", "no such column: nope; there are data (region TEXT, Amount NUMERIC"),
        ('select sum("nope") from data', "no such column: nope"),
        ("select load_extension('x')", "only SELECT can be run here"),
        ("with x as (select 1) delete from data", "only SELECT can be run here"),
        ("select 1 from data; select 2", "one statement at a time"),
        ("count | sum amount", "needs a table"),
        ("average amount where region = mars", "no numbers"),
        ("rows where a" + "x" * 3_000, "longer than"),
    ],
)
def test_questions_that_cannot_be_answered(bench, query, message):
    assert message in bench.fails(query_csv, text=SALES, query=query)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2,3\n", "line 2 has 3 cells, the header 2"),
        ('a,b\n"1,2\n', "line 2"),
        (b"a,b\n\xff,1\n", "not UTF-8"),
        (b"a\0b", "binary"),
    ],
)
def test_broken_tables_are_reported_with_their_line(bench, content, message):
    bench.put("a.csv", content)
    assert message in bench.fails(query_csv, path="a.csv", query="count")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(bench, delimiter):
    bench.put("a.csv", f"\ufeffa{delimiter}b\r\n1{delimiter}2\r\n")
    assert bench.call(query_csv, path="a.csv", query="sum b").text == "2"


def test_names_of_columns_that_are_twice_there_are_refused_when_meant(bench):
    assert "2 columns have this name" in bench.fails(query_csv, text="a,a\n1,2\n", query="sum a")


@pytest.mark.parametrize(
    ("cells", "query", "shown"),
    [
        ("$5,-$7.50", "sum x", "-$2.5"),
        ("15%,5%", "average x", "10%"),
        ("15%,5%", "count where x > 10", "1"),
        ("007,7", "unique x", "x\n7\n007"),
        ("01234,90210", "sort by x desc", "x\n90210\n01234"),
        ("2024-03-01,2023-12-31", "bottom 1 by x", "x\n2023-12-31"),
        ("1.10,1.1,2", "count by x", "x,count\n1.10,2\n2,1"),
        ("0.1,0.2", "sum x", "0.3"),
        ("0.1,0.2", "select sum(x) from data", "sum(x)\n0.3"),
    ],
)
def test_what_counts_as_a_number(bench, cells, query, shown):
    text = "x\n" + cells.replace(",", "\n")
    assert bench.call(query_csv, text=text, query=query).text == shown


@pytest.mark.parametrize(
    ("cells", "query", "message"),
    [
        ("10,n/a,9", "top 1 by x", "'n/a' is not a number"),
        ("10,n/a,9", "count where x > 9", "'n/a' is not a number"),
        ("10 kg,9 kg", "sort by x", "not a number like the others"),
        ("1.3.2024,15.2.2024", "sort by x", "dates such as 1.3.2024"),
        ("$5,€6", "sum x", "of several kinds"),
        ("10,n/a,9", "select sum(x) from data", "no such column: x; there are data (x (text) TEXT)"),
        ("1.3.2024,15.2.2024", "select max(x) from data", "no such column: x"),
        ("$5,$6", "count where x > 5€", "holds numbers in $"),
        ("007,8", "sum x", "'007' is not a number"),
        ("0.12345678901234567890,1", "sum x", "is not a number"),
        ("2024-03-01", "count where x > 2024", "not a number like the others"),
    ],
)
def test_what_has_no_order_or_sum_is_refused(bench, cells, query, message):
    assert message in bench.fails(query_csv, text="x\n" + cells.replace(",", "\n"), query=query)


def test_a_comma_groups_no_thousands_where_semicolons_separate(bench):
    assert "'1,234' is not a number" in bench.fails(query_csv, text="a;b\n1,234;2\n", query="sum a")


def test_a_table_that_can_be_read_in_two_ways_is_refused(bench):
    assert "separated by , or by ;" in bench.fails(query_csv, text="a,b;c\n1,2;3\n", query="header")
    assert bench.call(query_csv, text="a,b;c\n1;2,3,4\n", query="header").text == "a,b\nc"


def test_the_answer_can_be_written(bench):
    bench.call(query_csv, text=SALES, query="columns region", to="out/r.csv")
    assert bench.text("out/r.csv") == "region\nnorth\nsouth\nNorth\neast\n"
    bench.call(query_csv, text=SALES, query="count", to="n.txt")
    assert bench.text("n.txt") == "4\n"


def test_a_table_is_written_in_the_form_of_the_ending(bench):
    bench.put("t.csv", "name,age\nAda | B,36\nBo,7\n")
    bench.call(query_csv, path="t.csv", query="rows", to="t.json")
    assert json.loads(bench.text("t.json")) == [{"name": "Ada | B", "age": 36}, {"name": "Bo", "age": 7}]
    bench.call(query_csv, path="t.json", query="without age", to="names.csv")
    assert bench.text("names.csv") == "name\nAda | B\nBo\n"
    shown = bench.call(query_csv, path="t.csv", query="rows", form="markdown").text
    assert shown.split("\n") == ["| name | age |", "| --- | --- |", "| Ada \\| B | 36 |", "| Bo | 7 |"]


@pytest.mark.night
def test_ten_times_the_rows_take_about_ten_times_as_long(bench):
    def seconds(rows: int) -> float:
        bench.put("big.csv", "a,b\n" + "".join(f"{n},{n * 7 % 13}.5\n" for n in range(rows)))
        began = time.process_time()
        bench.call(query_csv, path="big.csv", query="sum a where b < 5")
        return time.process_time() - began

    few = min(seconds(30_000) for _ in range(3))
    assert seconds(300_000) < 20 * few


_cells = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(st.lists(_cells, min_size=3, max_size=3), max_size=6))
def test_a_table_is_read_as_it_was_written(rows):
    out = io.StringIO()
    csvlib.writer(out, lineterminator="\n", quoting=csvlib.QUOTE_ALL).writerows([["a", "b", "c"], *rows])
    assert read_table(out.getvalue(), "t").rows == rows


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
    ("text", "query", "message"),
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
        (PEOPLE, "people[0]name", "cannot read"),
        (PEOPLE, '["people"', "cannot read"),
        (PEOPLE, 'people "name"', "cannot read"),
        (PEOPLE, "x" * 2_000, "longer than"),
    ],
)
def test_what_is_not_in_json_is_reported(bench, text, query, message):
    assert message in bench.fails(query_json, text=text, query=query)


def test_a_value_is_set_and_the_rest_stays(bench):
    bench.put("c.json", '{"port": 8080, "rate": 1.50, "db": {"hosts": ["a", "b"]}}')
    assert bench.call(query_json, path="c.json", query="port", value="9090", to="c.json").text == (
        "wrote port = 9090 to c.json"
    )
    bench.call(query_json, path="c.json", query="db.hosts[1]", value='"z"', to="c.json")
    assert json.loads(bench.text("c.json")) == {"port": 9090, "rate": 1.5, "db": {"hosts": ["a", "z"]}}
    assert '"rate": 1.50' in bench.text("c.json")
    for query, value, why in (
        ("port", "high", "a text stands in double quotes"),
        ("db.hosts[9]", "1", "there is no item 9"),
        ("nothing.at.all", "1", "there is no key 'nothing'"),
        (".", "1", "name one key"),
        ("db.hosts[*]", "1", "name one key"),
    ):
        assert why in bench.fails(query_json, path="c.json", query=query, value=value, to="c.json")
    assert "give value and to" in bench.fails(query_json, path="c.json", query="port", value="1")


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
    text = jsonlib.dumps({key: [value]})
    assert outcome(query_json, Path(), text=text, query=f"[{jsonlib.dumps(key)}] | length") == "1"


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ('{"a": {"b": 1.10, "c": [2.50, -0]}}', "a", '{\n  "b": 1.10,\n  "c": [\n    2.50,\n    -0\n  ]\n}'),
        ("[1.10, 2.20]", ".", "1.10\n2.20"),
        ("[1.10, 2.20]", "sum", "3.30"),
        ('{"p|q": 1, "a": {"b|c": 2}}', '["p|q"]', "1"),
        ('{"p|q": 1, "a": {"b|c": 2}}', "a['b|c']", "2"),
        ('{"keys": 5, "a": 1}', '["keys"]', "5"),
        ('{"keys": 5, "a": 1}', ". | keys", "keys\na"),
        ('["\\ud800"]', "[0]", '"\\ud800"'),
    ],
)
def test_numbers_and_keys_stay_as_they_are_written(bench, text, query, shown):
    assert bench.call(query_json, text=text, query=query).text == shown


def test_a_key_that_is_called_like_a_question_is_not_guessed(bench):
    assert "'keys' is a key here" in bench.fails(query_json, text='{"keys": 5}', query="keys")


ORDERS = "item,quantity,status\nboots,2,shipped\nlamp,1,open\nboots,1,shipped\n"
PRICES = '[{"item": "boots", "price": 80.5}, {"item": "lamp", "price": 12}]'


def test_a_select_joins_tables_of_several_files(bench):
    bench.put("shop/orders.csv", ORDERS)
    bench.put("prices.json", PRICES)
    query = (
        "SELECT SUM(quantity * price) AS total FROM orders JOIN prices USING (item) WHERE status = 'shipped'"
    )
    made = bench.call(query_csv, path="shop/orders.csv", more=["prices.json"], query=query)
    assert made.text == "total\n241.5"


def test_a_question_in_words_is_about_one_table(bench):
    bench.put("orders.csv", ORDERS)
    bench.put("prices.json", PRICES)
    assert "several tables is a SELECT" in bench.fails(
        query_csv, path="orders.csv", more=["prices.json"], query="sum quantity"
    )


@pytest.mark.parametrize(
    "text",
    [
        PRICES,
        f'{{"prices": {PRICES}, "currency": "EUR"}}',
        '[{"item": "boots", "price": 80.5, "tags": ["a"]}, {"item": "lamp", "price": 12, "seen": null}]',
    ],
)
def test_a_json_list_of_objects_is_a_table(bench, text):
    bench.put("prices.json", text)
    assert bench.call(query_csv, path="prices.json", query="sum price").text == "92.5"


@pytest.mark.parametrize("text", ["[]", "{}", "[1, 2]", '{"a": [{"b": 1}], "c": [{"d": 2}]}', "[{", '"text"'])
def test_other_json_is_no_table_of_objects(text):
    assert objects_of(text) == []
