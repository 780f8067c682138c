"""The grammar of a JSON Schema, so that every reply is JSON of that form: llama.cpp's, with a few own rules.

The library's grammar admits what `json_reader` refuses: control characters and halves of surrogate pairs in
strings, numbers without an end, free values nested without a bound. `_OWN` replaces these rules. Bounds of
numbers, long lengths and what else it leaves out (uniqueItems, …) are left to whoever reads the reply.

A grammar cannot bound the length of a reply; `Grammar.reserve` is the number of bytes that suffice to finish
one from anywhere, so that a sampler can begin to close it in time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FREE_DEPTH = 5  # levels of arrays and objects in a value that the schema leaves free
NUMBER_RESERVE = 24
FREE_RESERVE = 20 * FREE_DEPTH + NUMBER_RESERVE
"""Bytes that end such a value: the rest of a key on each level, and a number."""
MOST = 300
"""The longest string, and the most items, that a grammar bounds."""
_LENGTHS = frozenset({"maxLength", "maxItems"})
_MEMBER = 'any-key ":" space any{}'
_LEVELS = "\n".join(
    f"any{n} ::= any0 | any{n}-map | any{n}-list\n"
    f'any{n}-map ::= "{{" space (any{n}-member ("," space any{n}-member)*)? "}}" space\n'
    f"any{n}-member ::= {_MEMBER.format(n - 1)}\n"
    f'any{n}-list ::= "[" space (any{n - 1} ("," space any{n - 1})*)? "]" space'
    for n in range(1, FREE_DEPTH + 1)
)
_OWN = rf"""
any-hex ::= [0-9a-fA-F]
any-code ::= "00" [2-9a-fA-F] any-hex | "0" [1-9a-fA-F] any-hex any-hex | any-pair
any-pair ::= [1-9a-cA-CefEF] any-hex any-hex any-hex | [dD] [0-7] any-hex any-hex
any-key ::= "\"" char char{{0,40}} "\""
char ::= [^"\\\x00-\x1f\x7f] | "\\" (["\\/nrt] | "u" any-code)
string ::= "\"" char* "\"" space
boolean ::= ("true" | "false") space
null ::= "null" space
integral-part ::= "0" | [1-9] [0-9]{{0,14}}
integer ::= "-"? integral-part space
number ::= "-"? integral-part ("." [0-9]{{1,6}})? space
any0 ::= string | number | boolean | null
{_LEVELS}
value ::= any{FREE_DEPTH}
object ::= any{FREE_DEPTH}-map
array ::= any{FREE_DEPTH}-list
""".strip()
_NAMES = frozenset(line.partition(" ")[0] for line in _OWN.splitlines())


@dataclass(frozen=True)
class Grammar:
    """GBNF with the rule `root`, and the bytes that suffice to end a reply from anywhere inside it."""

    text: str
    reserve: int


def grammar(schema: Mapping[str, Any], words: str = "") -> Grammar:
    """The grammar of a schema. Raises `ValueError` for one that the library does not know.

    Required keys stand before others, each in the order in which `words` (the form the model was shown) names
    them, else the schema's.
    """
    from llama_cpp.llama_grammar import SchemaConverter

    order = {name: place for place, name in enumerate(dict.fromkeys(re.findall(r'"(\w+)"', words)))}
    made: Any = SchemaConverter(prop_order=order, allow_fetch=False, dotall=False, raw_pattern=False)
    made._format_literal = _literal
    made._generate_constant_rule = lambda value: _literal(json.dumps(value, ensure_ascii=False))
    try:
        known = json.loads(json.dumps(schema), object_hook=_bounded)
        made.visit(made.resolve_refs(known, "schema"), "")
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"llama.cpp cannot make it: {error}") from None
    rules = [line for line in made.format_grammar().splitlines() if line.partition(" ")[0] not in _NAMES]
    return Grammar("\n".join([*rules, _OWN, ""]), _reserve(schema))


def _bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without lengths that llama.cpp cannot take: it nests a rule for each character."""
    return {
        name: each
        for name, each in schema.items()
        if not (name in _LENGTHS and isinstance(each, int) and each > MOST)
    }


def _literal(text: str) -> str:
    """A text that stands for itself; the library's own lets a backslash escape what follows it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _reserve(schema: Mapping[str, Any]) -> int:
    """The bytes that suffice to end a value of this schema."""
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return max(map(_reserve, options))
    if "enum" in schema or "const" in schema:
        return max((len(json.dumps(each)) for each in schema.get("enum", [schema.get("const")])), default=0)
    match schema.get("type"):
        case "object" if members := schema.get("properties"):
            return 2 + sum(len(json.dumps(name)) + 4 + _reserve(each) for name, each in members.items())
        case "array" if items := schema.get("items"):
            return 2 + max(1, schema.get("minItems", 0)) * (_reserve(items) + 2)
        case "string":
            return 10 + 6 * schema.get("minLength", 0)
        case "boolean" | "null" | "integer" | "number":
            return NUMBER_RESERVE
        case _:
            return FREE_RESERVE
