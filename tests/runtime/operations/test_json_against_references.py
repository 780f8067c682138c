"""json: random documents and places in them, as Python's json reads them, numbers as they were written."""

from __future__ import annotations

import json as jsonlib
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from references import COUNT, cases, outcome

from runtime.operations.paths import query_json

KEYS = (
    "a",
    "b",
    "name",
    "x.y",
    "p|q",
    "with space",
    'say "hi"',
    "it's",
    "",
    "0",
    "ключ",
    "keys",
    "length",
    "a[0]",
    "\n",
    "$",
    "*",
)
NUMBERS = ("0", "-0", "1", "1.10", "-2.50", "1E5", "1e400", "12345678901234567890123", "0.1", "0.2", "3.0000")
TEXTS = ("", "x", "two\nlines", "Ünï", '"', "1.10", "null", "\u2028", "tab\t")


class Raw(str):
    """A number as it is written."""


def value(r: random.Random, depth: int = 0) -> Any:
    kind = r.randrange(7 if depth < 4 else 4)
    if kind == 0:
        return Raw(r.choice(NUMBERS))
    if kind == 1:
        return r.choice(TEXTS)
    if kind in (2, 3):
        return r.choice((True, False, None, Raw(r.choice(NUMBERS))))
    if kind == 4:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {r.choice(KEYS): value(r, depth + 1) for _ in range(r.randrange(4))}


def dumped(node: Any, indent: str = "") -> str:
    """As json.dumps writes it with two spaces, numbers as they are."""
    holes: dict[str, str] = {}

    def hole(each: Any) -> Any:
        if isinstance(each, Raw):
            name = f"\ue000{len(holes)}\ue000"
            holes[f'"{name}"'] = str(each)
            return name
        if isinstance(each, list):
            return [hole(one) for one in each]
        return {key: hole(one) for key, one in each.items()} if isinstance(each, dict) else each

    text = jsonlib.dumps(hole(node), ensure_ascii=False, indent=2)
    for name, number in holes.items():
        text = text.replace(name, number)
    return text


def shown(node: Any) -> str:
    if isinstance(node, str):
        return str(node)
    if (
        isinstance(node, list)
        and node
        and all(
            isinstance(each, (Raw, bool)) or (isinstance(each, str) and each.splitlines() == [each])
            for each in node
        )
    ):
        return "\n".join(
            ("true" if each else "false") if isinstance(each, bool) else str(each) for each in node
        )
    return dumped(node)


def walk(r: random.Random, root: Any) -> tuple[str, Any]:
    """A place written in one of the ways there are, and what is there."""
    query, node = r.choice(("", "$")), root
    while isinstance(node, (list, dict)) and node and r.random() < 0.85:
        if isinstance(node, list):
            at = r.randrange(-len(node), len(node))
            query += f"[{at}]"
            node = node[at]
            continue
        key = r.choice(list(node))
        if key.isalpha() and key not in ("keys", "length") and r.random() < 0.7:
            query += f".{key}" if query else key
        else:
            query += f"[{jsonlib.dumps(key, ensure_ascii=r.random() < 0.5)}]"
        node = node[key]
    return query or ".", node


def test_places_and_what_is_asked_of_them(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        root = value(r)
        text = dumped(root) if r.random() < 0.5 else " ".join(dumped(root).split("\n"))
        query, node = walk(r, root)
        expected = shown(node)
        ask = r.randrange(6)
        if ask == 1 and isinstance(node, (list, dict)):
            query, expected = f"{query} | length", str(len(node))
        elif ask == 2 and isinstance(node, dict):
            query, expected = f"{query} | keys", shown(list(node))
        elif ask == 3 and isinstance(node, dict):
            query, expected = f"{query} | values", shown(list(node.values()))
        elif ask == 4 and isinstance(node, list) and node and all(isinstance(each, Raw) for each in node):
            query, expected = f"{query} | sum", f"{sum(map(Decimal, node))}"
        answer = outcome(query_json, tmp_path, text=text, query=query)
        alike = answer == expected
        if query.endswith("| sum") and answer is not None:
            alike = exact(answer) == sum(map(exact, node))
        if not alike and not (query.endswith("| sum") and answer is None and "1e400" in node):
            wrong.append((seed, query, text, answer, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"


def exact(text: str) -> Any:
    from fractions import Fraction

    return Fraction(text)


def test_what_is_not_there_is_declined(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        root = value(r)
        query, node = walk(r, root)
        further = r.choice(
            (".nope", "[99]", "..x", "[", '["a"', "]x", " nonsense", "|", "| shout", '"a', "x y")
        )
        if isinstance(node, dict) and "nope" in node:
            continue
        answer = outcome(query_json, tmp_path, text=dumped(root), query=f"{query}{further}")
        if answer is not None:
            wrong.append((seed, query + further, dumped(root), answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"
