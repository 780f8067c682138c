"""The jobs of `bench work`: their files, and what a capable reader does with what it is shown.

A policy sees text only, that of the prompt. It never looks at the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Call = Mapping[str, Any]


@dataclass(frozen=True)
class Move:
    """A decision: the next calls, or the end with an answer or a question."""

    calls: tuple[Call, ...] = ()
    done: str = ""
    question: str = ""
    then: str = ""  # the answer if the calls succeed and the criteria hold


Policy = Callable[[str], Move]


@dataclass(frozen=True)
class WorkJob:
    """A job: its task and files, a policy, the success criteria of a plan, and whether it is done."""

    name: str
    task: str
    files: Mapping[str, str]
    policy: Policy
    success: tuple[Mapping[str, Any], ...]
    check: Callable[[Path, str], bool]
    answer: str = ""  # of a person to a question
    pages: Mapping[str, str] = field(default_factory=dict[str, str])


def _read(path: str, lines: str = "") -> Call:
    return {"tool": "read", "args": {"path": path, **({"lines": lines} if lines else {})}}


def _bash(command: str) -> Call:
    return {"tool": "bash", "args": {"command": command}}


def _edit(path: str, old: str, new: str) -> Call:
    return {"tool": "edit", "args": {"path": path, "old": old, "new": new}}


def _write(path: str, content: str) -> Call:
    return {"tool": "write", "args": {"path": path, "content": content}}


def _act(*calls: Call, then: str = "") -> Move:
    return Move(calls, then=then)


def _was_read(seen: str, path: str) -> bool:
    return f'"path": "{path}"' in seen


TESTS = "python3 -m unittest -q 2>&1"
GREEN = ({"run": "python3 -m unittest -q"},)


def _fixer(*fixes: tuple[str, str, str]) -> Policy:
    """Run the tests; read what they name; make each correction (file, old, new) whose fault is in sight."""

    def policy(seen: str) -> Move:
        last = seen.rfind("Ran ")
        if last >= 0 and re.search(r"\bOK\b", seen[last:]):
            return Move(done="The tests pass.")
        if last < 0 and "Error" not in seen:
            return _act(_bash(TESTS), *map(_read, dict.fromkeys(re.findall(r"\w+\.py\b", seen))))
        for path, old, new in fixes:
            if old in seen and f'"new": "{new}"' not in seen:
                return _act(_edit(path, old, new), _bash(TESTS), then="The tests pass.")
        named = re.findall(r'File "(?:[^"]*/)?([\w/]+\.py)"', seen) + re.findall(r"from (\w+) import", seen)
        paths = [name if name.endswith(".py") else f"{name}.py" for name in named]
        unread = [path for path in dict.fromkeys(reversed(paths)) if not _was_read(seen, path)]
        if unread:
            return _act(*map(_read, unread[:2]))
        return Move(question="What should the code do?")

    return policy


def _trail(seen: str) -> Move:
    """Read the file that the last hint names, until the word is there; search for one that was moved."""
    if word := re.search(r"The word is (\w+)\.", seen):
        return Move(done=f"The word is {word[1]}.")
    found = [path for path in re.findall(r"^\./(\S+\.txt)$", seen, re.MULTILINE) if not _was_read(seen, path)]
    hints = [path for path in re.findall(r"go on in (\S+\.txt)", seen) if not _was_read(seen, path)]
    if hints or found:
        return _act(_read((hints or found)[-1]))
    missing = re.findall(r"([\w./]+\.txt)'?: there is no such|No such file or directory: '([^']+)'", seen)
    if missing and "find ." not in seen:
        return _act(_bash(f"find . -name {Path(''.join(missing[-1])).name}"))
    return Move(question="Where does the trail go on?")


_PRICED = "prices.csv has both prices."


def _research(seen: str) -> Move:
    """Follow the links of the site to the pages with prices, then write them down."""
    address = re.findall(r"http://127\.0\.0\.1:\d+/", seen)[0]
    prices = dict(re.findall(r"The (\w+) costs \$(\d+)", seen))
    if len(prices) == 2:
        if "wrote prices.csv" in seen:
            return Move(done=_PRICED)
        rows = "".join(f"{name},{prices[name]}\n" for name in sorted(prices))
        return _act(_write("prices.csv", rows), then=_PRICED)
    pages = [page for page in re.findall(r"/(\w+\.html)", seen) if f'{address}{page}"' not in seen]
    urls = [f"{address}{page}" for page in dict.fromkeys(pages)] or [address]
    return _act(
        *({"tool": "fetch", "args": {"url": url, **({} if pages else {"part": "links"})}} for url in urls[:3])
    )


def _log(seen: str) -> Move:
    """Find the failed request in a long log, then all its lines."""
    if "wrote first.txt" in seen:
        return Move(done="first.txt names the module.")
    if module := re.search(r"req-7731 .*module=(\w+)", seen):
        return _act(_write("first.txt", f"{module[1]}\n"), then="first.txt names the module.")
    if "ERROR" in seen.replace("first ERROR", "") and "req-7731" in seen:
        return _act(_bash("grep -n 'req-7731' server.log"))
    return _act(_bash("grep -n ERROR server.log | head -3"))


def _port(seen: str) -> Move:
    """Two files have a port: only a person knows which is meant."""
    if answer := re.search(r"(?:Answer: |which one\?\"\}\n)(\w+\.ini)", seen):
        path = answer[1]
        if (f"{path}" in seen and "→ done" in seen.partition("edit")[2]) or "replaced" in seen:
            return Move(done=f"{path} has port 9090.")
        change = _edit(path, "port = 8080", "port = 9090")
        return _act(change, _bash(f"cat {path}"), then=f"{path} has port 9090.")
    if "port = 8080" in seen:
        return Move(question="Both web.ini and admin.ini have port 8080: which one?")
    return _act(_bash("grep -n port *.ini"))


def _flaky(seen: str) -> Move:
    """The first call of the script fails and says to try again."""
    if "wrote token.txt" in seen:
        return Move(done="token.txt has the token.")
    if token := re.search(r"token (\w{6})", seen):
        return _act(_write("token.txt", f"{token[1]}\n"), then="token.txt has the token.")
    return _act(_bash("sh sync.sh"))


_OLD = {"report.py": "fetch_rows(3)", "page.py": "fetch_rows(5)", "store.py": "def fetch_rows(n)"}


def _rename(seen: str) -> Move:
    """Rename a function where it is named, run the tests, and find the use in a string."""
    last = seen.rfind("Ran ")
    if last >= 0 and re.search(r"\bOK\b", seen[last:]):
        return Move(done="fetch_rows is load_rows everywhere.")
    if "fetch_rows(3)" not in seen:
        return _act(_bash("grep -rn fetch_rows . --include=*.py"))
    if '"new": "def load_rows(n)"' not in seen:
        edits = [_edit(path, old, old.replace("fetch", "load")) for path, old in _OLD.items()]
        imports = [_edit(path, "import fetch_rows", "import load_rows") for path in ("report.py", "page.py")]
        return _act(*edits, *imports, _bash(TESTS))
    if "HANDLERS" in seen and '"load\\" + ' not in seen:
        change = _edit("dispatch.py", '"fetch" + ', '"load" + ')
        return _act(change, _bash(TESTS), then="fetch_rows is load_rows everywhere.")
    return _act(_read("dispatch.py"))


def _test(module: str, body: str) -> str:
    return f"import unittest\n\n{module}\n\n\nclass Cases(unittest.TestCase):\n{body}"


def _has(name: str, text: str) -> Callable[[Path, str], bool]:
    return lambda folder, answer: (folder / name).exists() and (folder / name).read_text() == text


def _says(word: str) -> Callable[[Path, str], bool]:
    return lambda folder, answer: word in answer


def _contains(*texts: tuple[str, str]) -> Callable[[Path, str], bool]:
    return lambda folder, answer: all(text in (folder / name).read_text() for name, text in texts)


_SHOP = {
    "cart.py": "def total(prices, discount=0):\n    return sum(prices) - discount / 100\n",
    "test_cart.py": _test(
        "from cart import total",
        "    def test_percent(self):\n        self.assertEqual(total([50, 50], 10), 90)\n",
    ),
}
_TWO = {
    "units.py": "def metres(km):\n    return km * 100\n",
    "trip.py": "from units import metres\n\n\ndef steps(km):\n    return metres(km) // 2\n",
    "test_trip.py": _test(
        "from trip import steps\nfrom units import metres",
        "    def test_a_metres(self):\n        self.assertEqual(metres(2), 2000)\n\n"
        "    def test_b_steps(self):\n        self.assertEqual(steps(1), 1250)\n",
    ),
}
_HELPER = {
    "invoice.py": "from rounding import cents\n\n\ndef due(amount):\n    return cents(amount * 1.2)\n",
    "rounding.py": "def cents(value):\n    return int(value * 100) / 100\n",
    "test_invoice.py": _test(
        "from invoice import due",
        "    def test_due(self):\n        self.assertEqual(due(0.83), 1.0)\n",
    ),
}
_HINTS = {
    "start.txt": "Begin: go on in one/a.txt\n",
    "one/a.txt": f"{'This line is of no use. ' * 40}\nNow go on in two/b.txt\n",
    "two/b.txt": f"{'Nor is this one. ' * 60}\nNow go on in three/c.txt\n",
    "three/c.txt": "Almost: go on in four/d.txt\n",
    "four/d.txt": "The word is lantern.\n",
}
_MOVED = {
    "start.txt": "Begin: go on in notes/first.txt\n",
    "notes/first.txt": "Now go on in notes/second.txt\n",
    "archive/2019/second.txt": "Now go on in last.txt\n",
    "last.txt": "The word is harbour.\n",
}
_LOG = "".join(
    f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02} INFO req-{n} module={'auth' if n % 3 else 'mail'} ok\n"
    if n not in (1999, 2600)
    else f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02} ERROR req-7731 failed\n"
    for n in range(4000)
).replace("req-1200 module=mail", "req-7731 module=billing")
_RENAMED = {
    "store.py": "def fetch_rows(n):\n    return list(range(n))\n",
    "report.py": "from store import fetch_rows\n\n\ndef report():\n    return sum(fetch_rows(3))\n",
    "page.py": "from store import fetch_rows\n\n\ndef page():\n    return len(fetch_rows(5))\n",
    "dispatch.py": 'import store\n\nHANDLERS = {"rows": "fetch" + "_rows"}\n\n\ndef call(name, n):\n'
    "    return getattr(store, HANDLERS[name])(n)\n",
    "test_all.py": _test(
        "from dispatch import call\nfrom page import page\nfrom report import report",
        "    def test_all(self):\n"
        "        self.assertEqual((report(), page(), call('rows', 2)), (3, 5, [0, 1]))\n",
    ),
}
_FLAKY = (
    "if [ -e .tried ]; then echo token q7''x2mm; else touch .tried; echo 'busy, try again' >&2; exit 75; fi\n"
)
"""Its text shows no token: what it prints has to be seen."""
_SITE = {
    "/": "<h1>Shop</h1><a href='/tools.html'>Tools</a> <a href='/about.html'>About</a>",
    "/tools.html": "<h1>Tools</h1><p>See <a href='/saws.html'>/saws.html</a>. The hammer costs $12.</p>",
    "/about.html": "<h1>About</h1><p>Nothing is sold here.</p>",
    "/saws.html": "<h1>Saws</h1><p>The saw costs $30.</p>",
}

JOBS: tuple[WorkJob, ...] = (
    WorkJob(
        "discount",
        "The tests fail. Fix cart.py.",
        _SHOP,
        _fixer(("cart.py", "sum(prices) - discount / 100", "sum(prices) * (1 - discount / 100)")),
        GREEN,
        _contains(("cart.py", "(1 - discount / 100)")),
    ),
    WorkJob(
        "two faults",
        "The tests fail. Find out why and fix the code, not the tests.",
        _TWO,
        _fixer(
            ("units.py", "km * 100", "km * 1000"), ("trip.py", "metres(km) // 2", "int(metres(km) / 0.8)")
        ),
        GREEN,
        _contains(("units.py", "km * 1000"), ("trip.py", "0.8")),
    ),
    WorkJob(
        "fault in a helper",
        "due(0.83) should be 1.0, see the test. Fix the fault where it is.",
        _HELPER,
        _fixer(("rounding.py", "int(value * 100) / 100", "round(value, 2)")),
        GREEN,
        _contains(("rounding.py", "round(value, 2)")),
    ),
    WorkJob(
        "trail",
        "start.txt begins a trail of files: go on in start.txt and tell me the word at its end.",
        _HINTS,
        _trail,
        ({"judge": "the word at the end of the trail is named"},),
        _says("lantern"),
    ),
    WorkJob(
        "trail with a moved file",
        "start.txt begins a trail of files: go on in start.txt and tell me the word at its end.",
        _MOVED,
        _trail,
        ({"judge": "the word at the end of the trail is named"},),
        _says("harbour"),
    ),
    WorkJob(
        "prices of a site",
        "Write the prices of the hammer and the saw at {site}/ into prices.csv as name,price, sorted.",
        {},
        _research,
        ({"file": "prices.csv", "has": "hammer,12"}, {"file": "prices.csv", "has": "saw,30"}),
        _has("prices.csv", "hammer,12\nsaw,30\n"),
        pages=_SITE,
    ),
    WorkJob(
        "long log",
        "Which module handled the request of the first ERROR in server.log? Write its name into first.txt.",
        {"server.log": _LOG},
        _log,
        ({"run": "test -s first.txt && grep -qwf first.txt server.log"},),
        _has("first.txt", "billing\n"),
    ),
    WorkJob(
        "question",
        "Set the port to 9090.",
        {"web.ini": "[web]\nport = 8080\n", "admin.ini": "[admin]\nport = 8080\n"},
        _port,
        ({"run": "grep -q 'port = 9090' *.ini"},),
        lambda folder, answer: (
            "9090" in (folder / "admin.ini").read_text() and "8080" in (folder / "web.ini").read_text()
        ),
        answer="admin.ini",
    ),
    WorkJob(
        "flaky tool",
        "Run sync.sh and write the token that it prints into token.txt.",
        {"sync.sh": _FLAKY},
        _flaky,
        ({"file": "token.txt", "has": "q7x2mm"},),
        _has("token.txt", "q7x2mm\n"),
    ),
    WorkJob(
        "rename",
        "Rename fetch_rows to load_rows everywhere. The tests must still pass.",
        _RENAMED,
        _rename,
        ({"run": "! grep -n 'def fetch_rows' store.py && python3 -m unittest -q"},),
        _contains(("store.py", "def load_rows"), ("report.py", "load_rows(3)")),
    ),
)
