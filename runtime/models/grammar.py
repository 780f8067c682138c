"""Translates a JSON Schema into a grammar of llama.cpp, so that every reply is JSON of that form.

The grammar covers objects with required and optional keys, arrays, alternatives, constants, references,
lengths of strings and arrays, bounds of numbers; values that the schema leaves free have bounded nesting.
The rest (pattern, format, uniqueItems, …) is left to validation of the reply.

Strings contain no control characters except \\n, \\r and \\t: a backspace in a reply was always an unescaped
\\b of a pattern. A grammar cannot bound the length of a reply; `Grammar.reserve` is the number of bytes that
suffice to finish one from anywhere, so that a sampler can begin to close it in time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

DIGITS = 15  # of a number without a bound: as many as any program reads exactly
FREE_DEPTH = 5  # levels of arrays and objects in a value that the schema leaves free
REFERENCE_DEPTH = 6  # how often a schema may contain itself
NUMBER = f'"-"? ("0" | [1-9] [0-9]{{0,{DIGITS - 1}}}) ("." [0-9]{{1,6}})?'
CHUNK = 100  # repetitions are written in pieces: llama.cpp expands them, and gives up on long ones

_SHARED = r"""
blank ::= " "?
hex ::= [0-9a-fA-F]
code ::= "00" [2-9a-fA-F] hex | "0" [1-9a-fA-F] hex hex | [1-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex
char ::= [^"\\\x00-\x1f\x7f] | "\\" (["\\/nrt] | "u" code)
text ::= "\"" char* "\""
key ::= "\"" char char{0,40} "\""
""".strip()


@dataclass(frozen=True)
class Grammar:
    """GBNF with the rule `root`, and the bytes that suffice to end a reply from anywhere inside it."""

    text: str
    reserve: int


@dataclass(frozen=True)
class _Part:
    rule: str  # what matches the value
    reserve: int


class _Impossible(Exception):
    """No value can match here; alternatives, optional members and empty arrays go without it."""


def grammar(schema: Mapping[str, Any], words: str = "") -> Grammar:
    """The grammar of a schema. Raises `ValueError` when no reply could ever match it.

    Keys have one order: that in which `words` (the form the model was shown) names them, else the schema's.
    """
    writer = _Writer(schema, words)
    try:
        root = writer.value(schema, 0)
    except _Impossible as error:
        raise ValueError(f"no reply can match this schema: {error}") from None
    rules = [f"{name} ::= {body}" for body, name in writer.rules.items()]
    return Grammar("\n".join([f"root ::= {root.rule}", *rules, _SHARED]) + "\n", root.reserve)


class _Writer:
    """Writes rules; each method returns what matches one kind of value."""

    def __init__(self, root: Mapping[str, Any], words: str) -> None:
        self.root = root
        self.words = words
        self.rules: dict[str, str] = {}  # name by body
        self._made: dict[tuple[str, int], _Part] = {}
        self._inside: list[str] = []  # references that are being written

    def value(self, schema: Any, depth: int) -> _Part:
        if schema is False:
            raise _Impossible("it allows nothing")
        if schema is True or not schema:
            return self._free(FREE_DEPTH)
        schema = cast(Mapping[str, Any], schema)
        if "const" in schema:
            return _literals([schema["const"]])
        if "enum" in schema:
            return _literals(schema["enum"])
        if "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                base = {name: each for name, each in schema.items() if name != key}
                return self._either((_merge([base, each]) for each in schema[key]), depth, schema)
        if "allOf" in schema:
            rest = {name: each for name, each in schema.items() if name != "allOf"}
            return self.value(_merge([rest, *(self._resolved(each) for each in schema["allOf"])]), depth)
        return self._typed(schema, depth)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> _Part:
        kind = schema.get("type") or _implied(schema)
        if isinstance(kind, list) or schema.get("nullable"):
            kinds = [*(cast(list[str], kind) if isinstance(kind, list) else [kind])]
            kinds += ["null"] if schema.get("nullable") else []
            single = {name: each for name, each in schema.items() if name != "nullable"}
            return self._either(({**single, "type": each} for each in kinds), depth, {})
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return _literals([True, False])
            case "null":
                return _literals([None])
            case _:
                return self._free(FREE_DEPTH)

    def _either(self, schemas: Iterable[Any], depth: int, schema: Mapping[str, Any]) -> _Part:
        parts: list[_Part] = []
        for option in schemas:
            try:
                parts.append(self.value(option, depth))
            except _Impossible:
                continue
        if schema.get("nullable"):
            parts.append(_literals([None]))
        if not parts:
            raise _Impossible("none of its alternatives can be")
        return self._named(" | ".join(part.rule for part in parts), max(part.reserve for part in parts))

    def _reference(self, name: str, depth: int) -> _Part:
        times = self._inside.count(name)
        if times > REFERENCE_DEPTH or (times and depth > REFERENCE_DEPTH):
            raise _Impossible(f"{name} contains itself without end")
        if (name, times) not in self._made:
            self._inside.append(name)
            try:
                self._made[name, times] = self.value(self._resolved({"$ref": name}), depth + 1)
            finally:
                self._inside.pop()
        return self._made[name, times]

    def _resolved(self, schema: Any) -> Any:
        target: Any = schema
        while isinstance(target, Mapping) and "$ref" in target:
            reference = cast(str, target["$ref"])
            target = self.root
            for step in reference.removeprefix("#").strip("/").split("/"):
                try:
                    target = target[step.replace("~1", "/").replace("~0", "~")] if step else target
                except (KeyError, TypeError):
                    raise ValueError(f"the schema refers to {reference}, which is not in it") from None
        return target

    def _object(self, schema: Mapping[str, Any], depth: int) -> _Part:
        properties = cast(Mapping[str, Any], schema.get("properties") or {})
        required = set(schema.get("required") or ())
        more = schema.get("additionalProperties", True)
        if not properties and not required:
            return self._map(more, depth) if more is not False else _Part('"{" blank "}"', 3)
        members: list[tuple[str, _Part, bool]] = []
        for name in sorted([*properties, *sorted(required - properties.keys())], key=self._order):
            try:
                members.append((name, self.value(properties.get(name, more), depth), name in required))
            except _Impossible:
                if name in required:
                    raise
        return self._members(members)

    def _order(self, name: str) -> int:
        at = self.words.find(f'"{name}"')
        return at if at >= 0 else len(self.words)

    def _members(self, members: Sequence[tuple[str, _Part, bool]]) -> _Part:
        """An object with these members in this order; separated by commas."""
        first = more = '"}"'
        open_, needed = 0, 0  # bytes to finish an optional member that was begun; to write what must come
        for name, part, required in reversed(members):
            member = f'{_quoted(json.dumps(name, ensure_ascii=False))} ":" blank {part.rule}'
            size = len(json.dumps(name).encode()) + 4 + part.reserve
            needed += size if required or needed else 0
            open_ = max(open_, size)
            skip_first, skip_more = ("", "") if required else (f" | {first}", f" | {more}")
            first = self._named(f"{member} {more}{skip_first}", 0).rule
            more = self._named(f'"," blank {member} {more}{skip_more}', 0).rule
        return self._named(f'"{{" {first}', 2 + needed + open_)

    def _map(self, values: Any, depth: int) -> _Part:
        part = self.value(values, depth)
        return self._named(self._entries(part), part.reserve + 20)

    def _entries(self, part: _Part) -> str:
        member = self._named(f'key ":" blank {part.rule}', 0).rule
        return f'"{{" ({member} ("," blank {member})*)? "}}"'

    def _array(self, schema: Mapping[str, Any], depth: int) -> _Part:
        least, most = int(schema.get("minItems") or 0), schema.get("maxItems")
        heads = [self.value(each, depth) for each in schema.get("prefixItems") or ()][:most]
        try:
            items = self.value(schema.get("items", not heads), depth)
        except _Impossible:
            items, most = _literals([None]), len(heads)
        rules = [part.rule for part in heads]
        if most is not None and least > most:
            raise _Impossible(f"an array of at least {least} and at most {most}")
        low, high = max(0, least - len(heads)), None if most is None else max(0, most - len(heads))
        if heads:
            tail = self._repeat(f'"," blank {items.rule}', low, high)
            body = ' "," blank '.join(rules) + f" {tail}"
        elif high == 0:
            body = ""
        else:
            tail = self._repeat(
                f'"," blank {items.rule}', max(0, low - 1), None if high is None else high - 1
            )
            body = f"{items.rule} {tail}" if low else f"({items.rule} {tail})?"
        reserve = 2 + sum(part.reserve + 2 for part in heads) + max(1, low) * (items.reserve + 2)
        return self._named(f'"[" {body} "]"', reserve)

    def _string(self, schema: Mapping[str, Any]) -> _Part:
        least, most = int(schema.get("minLength") or 0), schema.get("maxLength")
        reserve = 10 + 6 * least
        if not least and most is None:
            return _Part("text", reserve)
        return self._named(f'"\\"" {self._repeat("char", least, most)} "\\""', reserve)

    def _repeat(self, rule: str, least: int, most: int | None) -> str:
        """`rule` between `least` and `most` times, in pieces that llama.cpp takes, without ambiguity."""
        if most is not None and most < least:
            raise _Impossible(f"at least {least} and at most {most} cannot be")
        unit = self._named(rule, 0).rule
        whole = self._named(f"{unit}{{{CHUNK}}}", 0).rule if max(least, most or 0) >= CHUNK else ""
        rest = f"{unit}*" if most is None else self._up_to(unit, whole, most - least)
        before = [whole] * (least // CHUNK) + ([f"{unit}{{{least % CHUNK}}}"] if least % CHUNK else [])
        return " ".join([*before, rest])

    def _up_to(self, unit: str, whole: str, most: int) -> str:
        rule = f"{unit}{{0,{most % CHUNK}}}" if most % CHUNK else '""'
        for _ in range(most // CHUNK):
            rule = self._named(f"{unit}{{0,{CHUNK - 1}}} | {whole} {rule}", 0).rule
        return rule

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> _Part:
        low, high = _bounds(schema)
        least, most = _up(low), -_up(-high)
        least += schema.get("exclusiveMinimum") == least
        most -= schema.get("exclusiveMaximum") == most
        rule = " | ".join(integers(least, most) + ([] if whole else fractions(low, high)))
        if not rule:
            raise _Impossible(f"no number lies between {low} and {high}")
        return self._named(rule, 2 * DIGITS)

    def _free(self, depth: int) -> _Part:
        """Any JSON value, nested at most `depth` deep."""
        simple = 'text | "true" | "false" | "null" | ' + NUMBER
        if depth == 0:
            return self._named(simple, 2 * DIGITS)
        inner = self._free(depth - 1)
        map_ = self._entries(inner)
        list_ = f'"[" ({inner.rule} ("," blank {inner.rule})*)? "]"'
        return self._named(f"{simple} | {map_} | {list_}", inner.reserve + 20)

    def _named(self, body: str, reserve: int) -> _Part:
        """A rule of that body; the same body has the same name."""
        return _Part(self.rules.setdefault(body, f"r{len(self.rules)}"), reserve)


def _implied(schema: Mapping[str, Any]) -> str:
    """The type of a schema that names none."""
    for kind, signs in {
        "object": ("properties", "required", "additionalProperties"),
        "array": ("items", "prefixItems", "minItems", "maxItems"),
        "string": ("minLength", "maxLength", "pattern"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }.items():
        if any(sign in schema for sign in signs):
            return kind
    return ""


def _merge(schemas: Sequence[Any]) -> Any:
    """What matches all of these, as far as they say different things."""
    if any(each is False for each in schemas):
        return False
    merged: dict[str, Any] = {}
    for schema in schemas:
        if schema is True:
            continue
        for key, value in cast(Mapping[str, Any], schema).items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = list(dict.fromkeys([*merged.get(key, []), *value]))
            else:
                merged[key] = value
    return merged


def _literals(values: Iterable[Any]) -> _Part:
    texts = [json.dumps(each, ensure_ascii=False) for each in values]
    if not texts:
        raise _Impossible("it lists no value")
    rule = " | ".join(_quoted(text) for text in texts)
    return _Part(rule if len(texts) == 1 else f"({rule})", max(len(text.encode()) for text in texts))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    return low, high


# ---- numbers between two bounds, digit by digit ----


def integers(low: float, high: float) -> list[str]:
    """The whole numbers from `low` to `high`; up to DIGITS digits where there is no bound."""
    below, above = int(max(low, -(10**DIGITS) + 1)), int(min(high, 10**DIGITS - 1))
    if low > above:  # beyond what is written without a bound
        above = int(low) * 10 + 9 if high == math.inf else int(high)
    if high < below:
        below = int(high) * 10 - 9 if low == -math.inf else int(low)
    found = [f'"-" ({" | ".join(_naturals(max(1, -above), -below))})'] if below < 0 and below <= above else []
    return found + (_naturals(max(0, below), above) if above >= 0 and below <= above else [])


def _naturals(low: int, high: int) -> list[str]:
    """The numbers from `low` to `high`, neither negative."""
    found: list[str] = []
    while low <= high:
        size = len(str(low))
        found += _same_length(str(low), str(min(high, 10**size - 1)))
        low = 10**size
    return found


def _same_length(low: str, high: str) -> list[str]:
    """The digits from `low` to `high`, both of the same length."""
    if not low or low == high:
        return [f'"{low}"'] if low else [""]
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        rest = len(low) - 1
        return [f"[{low[0]}-{high[0]}]" + (f" [0-9]{{{rest}}}" if rest else "")]
    if low[0] == high[0]:
        return [f'"{low[0]}" {each}'.strip() for each in _same_length(low[1:], high[1:])]
    zeros, nines = "0" * (len(low) - 1), "9" * (len(low) - 1)
    first = [f'"{low[0]}" {each}' for each in _same_length(low[1:], nines)]
    last = [f'"{high[0]}" {each}' for each in _same_length(zeros, high[1:])]
    after, before = chr(ord(low[0]) + 1), chr(ord(high[0]) - 1)
    middle = _same_length(after + zeros, before + nines) if after <= before else []
    return first + middle + last


def fractions(low: float, high: float) -> list[str]:
    """Numbers strictly between `low` and `high` that are not whole; not all of them."""
    tail = '"." [0-9]{0,5} [1-9]'
    above = integers(max(0, _up(low)), -_up(-high) - 1)
    below = integers(max(0, _up(-high)), -_up(low) - 1)
    found = [f"({' | '.join(above)}) {tail}"] if above else []
    found += [f'"-" ({" | ".join(below)}) {tail}'] if below else []
    if not found and low < high:  # no whole number below them: some of those between
        found = [f'"{low + (high - low) * n / 10!r}"' for n in range(1, 10)]
    return found


def _up(number: float) -> float:
    """Rounded up to a whole number; infinities stay."""
    return number if math.isinf(number) else math.ceil(number)
