"""database: connected, asked, changed, disconnected; all of a call happens, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT, until, within
from playing import ACCEPT, plan, player

from kernel.asking.responder import Ask
from kernel.errors import OperationFailed
from kernel.tools.operations import Result, file_hash
from runtime.operations.database import database
from runtime.sandbox.context import OperationContext

PREPARE: Any = database.prepare  # type: ignore[attr-defined]


class Connected:
    """Calls in their order, as the kernel makes them: what one keeps, the next is given."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.kept: Any = {}

    @property
    def context(self) -> OperationContext:
        return replace(self.bench.context, kept=self.kept)

    def __call__(self, action: str, **args: Any) -> Result:
        touched = PREPARE(self.context, action=action, **args)
        before = self.files()
        result = database(self.context, action=action, **args)
        after = self.files()
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        assert changed <= {touch.path for touch in touched}, "undo would not know of it"
        self.kept = self.kept if result.keep is None else result.keep
        return result

    def files(self) -> dict[Path, str]:
        """The files that last: an index of SQLite's log is made anew whenever it is needed."""
        files = [path for path in self.bench.folder.rglob("*") if path.is_file() and path.suffix != ".db-shm"]
        return {path: file_hash(path) for path in files}

    def fails(self, action: str, **args: Any) -> str:
        before = self.files()
        with pytest.raises(OperationFailed) as caught:
            database(self.context, action=action, **args)
        assert self.files() == before
        return str(caught.value)


@pytest.fixture
def call(bench: Any) -> Connected:
    return Connected(bench)


@pytest.fixture
def shop(call: Connected) -> Connected:
    call("connect", path="shop.db", create=True)
    call("execute", sql="CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL)")
    rows = [["tea", 3.5], ["salt", 1], ["o'hara; DROP TABLE goods", None]]
    call("execute", sql="INSERT INTO goods (name, price) VALUES (?, ?)", params=rows)
    return call


def test_what_is_written_is_read_again_and_values_are_never_sql(shop: Connected) -> None:
    assert shop("query", sql="SELECT * FROM goods ORDER BY id").text == (
        "id,name,price\n1,tea,3.5\n2,salt,1.0\n3,o'hara; DROP TABLE goods,"
    )
    assert shop("query", sql="SELECT id FROM goods WHERE name = :n", params={"n": "tea"}).text == "id\n1"
    assert shop("query", sql="SELECT id FROM goods WHERE name = ?", params=["x' OR 1=1 --"]).text == "id"
    assert shop("disconnect").text == "disconnected from shop.db"
    assert shop.kept == {}


def test_connecting_tells_the_tables(shop: Connected) -> None:
    again = shop("connect", path="shop.db", mode="read")
    assert again.text == (
        "connected to shop.db, to read it\ngoods (id INTEGER, name TEXT, price REAL): 3 rows"
    )
    assert again.keep == {"path": "shop.db", "mode": "read"}


def test_a_script_is_one_transaction(shop: Connected) -> None:
    script = """-- two at once
        INSERT INTO goods (name) VALUES ('a;b'); UPDATE goods SET price = 2;
        CREATE TRIGGER t AFTER INSERT ON goods BEGIN UPDATE goods SET price = 9; SELECT 1; END;
        -- the end"""
    assert shop("execute", sql=script).text == "3 statements, 5 rows changed"
    message = shop.fails(
        "execute", sql="DELETE FROM goods; INSERT INTO goods (id) VALUES (1); SELECT cost FROM goods"
    )
    assert "no such column: cost; there are goods (id INTEGER" in message
    assert shop("query", sql="SELECT count(*) FROM goods").text == "count(*)\n4"


def test_returning_gives_rows_and_a_list_in_a_value_is_kept_as_json(shop: Connected) -> None:
    shop("execute", sql="INSERT INTO goods (name) VALUES (:kinds)", params={"kinds": ["ale", {"b": 1}]})
    assert shop("query", sql="SELECT name FROM goods WHERE id = 4").text == 'name\n"[""ale"", {""b"": 1}]"'
    made = shop("execute", sql="UPDATE goods SET price = 1 WHERE id < 3 RETURNING id")
    assert made.text == "2 rows changed\nid\n1\n2"


def test_many_rows_are_cut_and_say_so(shop: Connected) -> None:
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n"
    text = shop("query", sql=counted, limit=3).text
    assert text.startswith("i\n1\n2\n3\n… only the first 3 rows")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("ATTACH 'other.db' AS o", "no other file can be attached"),
        ("VACUUM INTO 'copy.db'", "no other file can be attached|VACUUM is not possible"),
        ("VACUUM", "no other file can be attached|VACUUM is not possible"),
        ("SELECT load_extension('x')", "not allowed here|not authorized"),
        ("PRAGMA writable_schema = 1", "PRAGMA writable_schema can be read at most"),
        ("PRAGMA journal_mode = WAL", "PRAGMA journal_mode can be read at most"),
        ("PRAGMA user_version = 7", "PRAGMA user_version can be read at most"),
        ("UPDATE sqlite_master SET sql = 'x'", "may not be modified"),
        ("BEGIN; DELETE FROM goods; COMMIT", "a call is one transaction already"),
        ("ROLLBACK", "a call is one transaction already"),
        ("CREATE TEMP TABLE t (a)", "a temporary table is gone after its call|not allowed"),
        ("CREATE VIRTUAL TABLE t USING csv(filename='/etc/passwd')", "not allowed here|no such module"),
        ("DELETE FROM goods WHERE id = ?", "bindings"),
        ("SELEC 1", "syntax error"),
        ("INSERT INTO goods (name) VALUES ('tea')", "UNIQUE constraint failed"),
    ],
)
def test_what_reaches_beyond_the_database_is_refused_and_nothing_changes(
    shop: Connected, sql: str, says: str
) -> None:
    message = shop.fails("execute", sql=sql)
    assert re.search(says, message), message
    assert sorted(path.name for path in shop.bench.folder.iterdir()) == ["shop.db"]


def test_a_query_and_a_connection_for_reading_change_nothing(shop: Connected) -> None:
    assert "only SELECT" in shop.fails("query", sql="DELETE FROM goods")
    shop("connect", path="shop.db", mode="read")
    assert "connected with mode read" in shop.fails("execute", sql="DELETE FROM goods")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "connect needs path"),
        ({"path": "none.db"}, "create: true makes an empty database"),
        ({"path": "none.db", "mode": "read"}, "there is no such file"),
        ({"path": "text.db"}, "this is not an SQLite database"),
        ({"path": "big.db"}, "this is not an SQLite database"),
        ({"path": "torn.db"}, "the file is damaged"),
        ({"path": "folder"}, "folder"),
        ({"path": "../x.db", "create": True}, "outside the folder"),
        ({"path": "state/x.db", "create": True}, "protected"),
    ],
)
def test_what_is_no_database_is_reported(shop: Connected, args: dict[str, Any], says: str) -> None:
    shop.bench.put("text.db", "SQLite is what this is not\n")
    shop.bench.put("big.db", b"\0" * 10_000_000)
    raw = bytearray((shop.bench.folder / "shop.db").read_bytes())
    raw[100:2000] = b"\xff" * 1900
    shop.bench.put("torn.db", bytes(raw))
    (shop.bench.folder / "folder").mkdir()
    with within(1):
        assert says in shop.fails("connect", **args)


def test_a_database_of_ten_megabytes_is_quick(shop: Connected) -> None:
    many = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "INSERT INTO goods (name, price) SELECT printf('%0100d', i), i FROM n"
    )
    assert shop("execute", sql=many).text == "100000 rows changed"
    assert (shop.bench.folder / "shop.db").stat().st_size > 10_000_000
    assert shop("query", sql="SELECT max(price) FROM goods").text.endswith("100000.0")
    assert "100003 rows" in shop("connect", path="shop.db").text


def test_a_statement_that_never_ends_is_stopped_and_taken_back(bench: Any) -> None:
    call = Connected(replace(bench, timeout=1.0))
    call("connect", path="a.db", create=True)
    call("execute", sql="CREATE TABLE t (a)")
    with within(5):
        endless = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO t SELECT i FROM n"
        )
        assert "took longer than 1 s and was stopped" in call.fails("execute", sql=endless)
    assert call("query", sql="SELECT count(*) FROM t").text.endswith("\n0")


@contextlib.contextmanager
def another(path: Path, *statements: str) -> Iterator[sqlite3.Connection]:
    held = sqlite3.connect(path, isolation_level=None)
    for each in statements:
        held.execute(each)
    yield held
    held.close()


def test_a_database_that_another_program_writes_is_reported(shop: Connected) -> None:
    shop.bench = replace(shop.bench, timeout=1.0)
    with another(shop.bench.folder / "shop.db", "BEGIN EXCLUSIVE"):
        message = shop.fails("execute", sql="DELETE FROM goods")
    assert "another program is writing; nothing was changed" in message
    assert shop("execute", sql="DELETE FROM goods").text == "3 rows changed"


def test_a_database_with_a_log_is_changed_beside_another_program(shop: Connected) -> None:
    path = shop.bench.folder / "shop.db"
    with another(path, "PRAGMA journal_mode = WAL", "INSERT INTO goods (name) VALUES ('fresh')") as held:
        touched = PREPARE(shop.context, action="execute", sql="DELETE FROM goods")
        assert [each.path.name for each in touched] == ["shop.db", "shop.db-wal"]
        assert shop("query", sql="SELECT count(*) FROM goods").text.endswith("\n4")
        database(shop.context, action="execute", sql="DELETE FROM goods WHERE id < 4")
        assert held.execute("SELECT name FROM goods").fetchall() == [("fresh",)]


def test_a_file_that_cannot_be_written_is_reported(shop: Connected) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anything")
    (shop.bench.folder / "shop.db").chmod(0o444)
    assert "cannot be written; connect with mode read" in shop.fails("connect", path="shop.db")


# ---- in a run --------------------------------------------------------------------------------------------


def step(action: str, **args: Any) -> dict[str, Any]:
    return {"tool": "database", "args": {"action": action, **args}}


STEPS = [
    step("connect", path="shop.db", create=True),
    step("execute", sql="CREATE TABLE goods (name TEXT)"),
    step("execute", sql="INSERT INTO goods VALUES (?)", params=[["tea"], ["salt"]]),
    step("query", sql="SELECT count(*) AS n FROM goods"),
    step("disconnect"),
]


def answers(*steps: dict[str, Any]) -> Callable[[Ask], Any]:
    def answer(ask: Ask) -> Any:
        output = f"{{{{ steps[{len(steps) - 1}].result }}}}"
        return {**ACCEPT, "output": output} if ask.phase == "check" else plan(*steps)

    return answer


def test_a_run_connects_writes_asks_and_disconnects_and_is_undone(tmp_path: Path) -> None:
    played = player(tmp_path / "work", memory=NIGHT)(answers(*STEPS))
    assert played.result.output == "n\n2"
    lines = played.fractal.undo(played.result.run)
    assert "shop.db: removed, as it was not there before" in lines
    assert not (tmp_path / "work" / "shop.db").exists()


def test_a_query_before_connecting_is_refused(tmp_path: Path) -> None:
    played = player(tmp_path / "work", memory=NIGHT)(answers(*STEPS[3:]))
    assert played.root.steps[1].result == (
        "database: action 'query' is not allowed in the state 'closed'; possible now: connect"
    )


def test_undo_of_one_step_puts_the_database_back_as_it_was_before_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    played = player(work, memory=NIGHT)(answers(*STEPS))
    played.fractal.undo(played.result.run, 3)
    with another(work / "shop.db") as there:
        assert there.execute("SELECT count(*) FROM goods").fetchone() == (0,)


@pytest.mark.timeout(60)
@pytest.mark.night
def test_a_transaction_that_a_death_has_cut_is_taken_back_and_made_again(tmp_path: Path) -> None:
    """Killed while SQLite writes: a half-written file and its journal are no reason to ask a person."""
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) "
    filling = step("execute", sql=many + "INSERT INTO goods SELECT printf('%0100d', i) FROM n")
    steps = [*STEPS[:2], filling, *STEPS[3:]]
    script = [{"phase": "plan", "reply": {**plan(*steps), "task": "fill it"}}]
    script += [{"phase": "check", "reply": {**ACCEPT, "output": "{{ steps[4].result }}"}}]
    (tmp_path / "script.json").write_text(json.dumps(script), "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    model = {"FRACTAL_MODEL": f"scripted:{tmp_path}/script.json", "FRACTAL_SANDBOX": "off"}
    command = [sys.executable, "-m", "runtime.cli", "-C", str(work)]
    process = subprocess.Popen([*command, "run", "fill it"], env={**os.environ, **model})
    path = work / "shop.db"
    until(lambda: process.poll() is not None or (path.exists() and path.stat().st_size > 4_000_000))
    assert process.poll() is None
    process.kill()
    process.wait()
    assert path.with_name("shop.db-journal").exists()
    ran = subprocess.run([*command, "resume"], env={**os.environ, **model}, capture_output=True, text=True)
    assert ran.stdout.startswith("n\n400000\n"), ran.stderr
    assert not path.with_name("shop.db-journal").exists()
