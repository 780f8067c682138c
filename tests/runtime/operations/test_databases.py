"""sqlite: any question that only reads, and nothing else; the file and its folder stay as they are."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from kernel.tools.operations import file_hash
from runtime.operations.database import query_sqlite


@pytest.fixture
def shop(bench) -> Path:
    path = bench.folder / "shop.db"
    database = sqlite3.connect(path)
    database.executescript(
        """
        CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT, amount REAL, note BLOB);
        INSERT INTO orders VALUES (1, 'north', 10.5, NULL), (2, 'south, far', 20, x'00ff');
        INSERT INTO orders VALUES (3, 'north', 5, 'a"b');
        CREATE VIEW north AS SELECT * FROM orders WHERE region = 'north';
        """
    )
    database.close()
    return path


def test_rows_come_as_csv_with_a_header(bench, shop):
    result = bench.call(query_sqlite, path="shop.db", query="SELECT * FROM orders ORDER BY id")
    assert result.text.splitlines() == [
        "id,region,amount,note",
        "1,north,10.5,",
        "2,\"south, far\",20.0,x'00ff'",
        '3,north,5.0,"a""b"',
    ]
    assert result.evidence == {"rows": 3, "more": False}
    summed = bench.call(
        query_sqlite, path="shop.db", query="with n as (select * from north) select sum(amount) s from n;"
    )
    assert summed.text == "s\n15.5"


def test_without_a_query_the_tables_are_listed(bench, shop):
    assert bench.call(query_sqlite, path="shop.db").text.splitlines() == [
        "north (view: id INTEGER, region TEXT, amount REAL, note BLOB)",
        "orders (id INTEGER, region TEXT, amount REAL, note BLOB): 3 rows",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "UPDATE orders SET amount = 0",
        "INSERT INTO orders (region) VALUES ('x')",
        "DROP TABLE orders",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "ATTACH 'other.db' AS o",
        "VACUUM INTO 'copy.db'",
        "PRAGMA journal_mode = wal",
        "PRAGMA user_version = 5",
        "PRAGMA writable_schema = 1",
        "REINDEX",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
        "SELECT 1; DROP TABLE orders",
    ],
)
def test_nothing_but_reading_is_done(bench, shop, query: str):
    before = file_hash(shop)
    message = bench.fails(query_sqlite, path="shop.db", query=query)
    assert "SELECT" in message or "one statement" in message or "no such function" in message
    assert file_hash(shop) == before
    assert bench.names() == ["shop.db"]


def test_a_database_with_a_write_ahead_log_is_read_and_gets_no_files_beside_it(bench, shop):
    with sqlite3.connect(shop) as database:
        database.execute("PRAGMA journal_mode = wal")
    database.close()
    assert bench.names() == ["shop.db"]
    assert bench.call(query_sqlite, path="shop.db", query="SELECT count(*) c FROM orders").text == "c\n3"
    assert bench.names() == ["shop.db"]


def test_what_another_program_has_just_written_is_seen(bench, shop):
    writer = sqlite3.connect(shop)
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("INSERT INTO orders (region) VALUES ('west')")
    writer.commit()
    assert bench.call(query_sqlite, path="shop.db", query="SELECT count(*) c FROM orders").text == "c\n4"
    writer.close()


def test_a_query_that_never_ends_is_stopped(bench, shop):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    quick = type(bench)(bench.folder, {}, timeout=0.5)
    assert "stopped; make it narrower" in quick.fails(query_sqlite, path="shop.db", query=endless)


def test_a_value_that_would_fill_the_memory_is_refused(bench, shop):
    assert "too big" in bench.fails(query_sqlite, path="shop.db", query="SELECT zeroblob(1000000000)")


def test_rows_beyond_the_limit_are_cut_visibly(bench, shop):
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n LIMIT 500"
    result = bench.call(query_sqlite, path="shop.db", query=many, limit=3)
    assert result.text.splitlines()[:4] == ["x", "1", "2", "3"]
    assert result.text.splitlines()[4].startswith("… only the first 3 rows")


def test_errors_name_what_there_is(bench, shop):
    message = bench.fails(query_sqlite, path="shop.db", query="SELECT price FROM orders")
    assert "no such column: price" in message
    assert "orders (id INTEGER, region TEXT" in message
    bench.put("notes.txt", "no database, but long enough " * 10)
    assert "not an SQLite database" in bench.fails(query_sqlite, path="notes.txt")
    bench.put("torn.db", shop.read_bytes()[:2_000] + b"x" * 3_000)
    assert "torn.db: " in bench.fails(query_sqlite, path="torn.db", query="SELECT * FROM orders")
    assert "no such file" in bench.fails(query_sqlite, path="gone.db")
