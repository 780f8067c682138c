"""One odd part of what a server says costs that part: the other tools and all readable text stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("told_server.py")
TEXT = {"type": "object", "properties": {"q": {"type": "string"}}}


def tool(name, schema=TEXT, **more):
    return {"name": name, "description": f"Tell about {name}.", "inputSchema": schema, **more}


@pytest.fixture
def told(place):
    """Write a server that lists these pages, and answers calls of its tools so."""

    def write(pages, answers=None):
        pages = pages if isinstance(pages, dict) else {"": {"tools": pages}}
        (place.folder / "told.json").write_text(json.dumps({"pages": pages, "answers": answers or {}}))
        place.write({"s": {"command": sys.executable, "args": [str(SERVER), "told.json"]}})
        return place

    return write


def deep(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


MENDED = {
    "empty": ({}, "s-bad()"),
    "no type": ({"properties": {"a": {"type": "string"}}}, "s-bad(a?)"),
    "null": (None, "s-bad()"),
    "true": (True, "s-bad()"),
    "required true": ({"type": "object", "properties": {"a": {}}, "required": True}, "s-bad(a?)"),
    "required null": ({"type": "object", "properties": {"a": {}}, "required": None}, "s-bad(a?)"),
    "required text": ({"type": "object", "properties": {"a": {}}, "required": "a"}, "s-bad(a)"),
    "required of an argument": (
        {"type": "object", "properties": {"a": {"type": "string", "required": True}, "b": {}}},
        "s-bad(a, b?)",
    ),
    "required is not described": ({"type": "object", "required": ["a"]}, "s-bad(a)"),
    "properties null": ({"type": "object", "properties": None}, "s-bad()"),
    "list of types": ({"type": ["object", "null"], "properties": {"a": {}}}, "s-bad(a?)"),
    "capital type": ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, "s-bad(a?)"),
    "wrong type with properties": ({"type": "string", "properties": {"a": {}}}, "s-bad(a?)"),
    "type in place of a schema": ({"type": "object", "properties": {"a": "string"}}, "s-bad(a?)"),
    "list of properties": ({"type": "object", "properties": [{"name": "a", "type": "string"}]}, "s-bad(a?)"),
    "JSON in a text": (json.dumps(TEXT), "s-bad(q?)"),
    "loop": ({"$defs": {"n": {"$ref": "#/$defs/n"}}, "type": "object", "$ref": "#/$defs/n"}, "s-bad()"),
    "loop in an argument": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}},
        },
        "s-bad(a?)",
    ),
    "$ref to nowhere": ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "s-bad(a?)"),
    "no JSON Schema": ({"foo": "bar"}, "s-bad()"),
    "deep": (deep(60), "s-bad(a?)"),
}


def test_a_schema_is_mended_where_it_is_plain_what_is_meant(told):
    odd = {kind: f"bad{n}" for n, kind in enumerate(MENDED)}
    place = told([tool("good"), *(tool(odd[kind], schema) for kind, (schema, _) in MENDED.items())])
    found = {kind: place.lists()[f"s-{name}"].signature.replace(name, "bad") for kind, name in odd.items()}
    assert found == {kind: signature for kind, (_, signature) in MENDED.items()}
    assert "s-good" in place.lists()
    assert place.warnings == []


SKIPPED = {
    "text": "anything",
    "list": [1, 2],
    "number": 7,
    "false": False,
    "of another type": {"type": "array", "items": {"type": "string"}},
    "properties are no object": {"type": "object", "properties": "a, b"},
    "huge": {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 300_000}}},
    "an impossible name": {"type": "object", "properties": {}, "required": ["a b\n"]},
}


def test_a_tool_with_another_bad_schema_is_skipped_by_name_and_the_others_stay(told):
    odd = {kind: f"bad{n}" for n, kind in enumerate(SKIPPED)}
    place = told([tool("good"), *(tool(odd[kind], each) for kind, each in SKIPPED.items()), tool("other")])
    assert set(place.lists()) == {"s-good", "s-other"}
    assert [each.partition(": ")[2].partition(":")[0] for each in place.warnings] == [
        f"skipped {name}" for name in odd.values()
    ]


def test_the_rest_of_a_tool_may_be_anything(told):
    rest = {
        "title": [],
        "annotations": "none",
        "icons": 7,
        "execution": "?",
        "_meta": [],
        "outputSchema": "?",
    }
    place = told(
        [{"name": "a"}, tool("b", description=7), tool("c", **rest), tool("d", outputSchema={"type": 7})]
    )
    assert set(place.lists()) == {"s-a", "s-b", "s-c", "s-d"}
    assert place.warnings == []


def test_what_is_no_tool_is_told(told):
    odd = [7, None, [], {}, {"name": 7}, {"name": None}, {"name": "a\nb"}]
    place = told([tool("good"), *odd, tool("other")])
    assert set(place.lists()) == {"s-good", "s-other"}
    assert len(place.warnings) == 3, "equal ones are told once"
    assert all("MCP server s: skipped a tool with the invalid name" in each for each in place.warnings)


@pytest.mark.parametrize("page", [{}, {"tools": "none"}, None, "x"])
def test_a_list_that_is_none_is_told(told, page):
    place = told({"": page})
    assert place.lists() == {}
    (warning,) = place.warnings
    assert "MCP server s: its list of tools is not a list" in warning


def test_many_bad_tools_are_told_in_few_words(told):
    place = told([tool("good"), *(tool(f"bad{n}", 7) for n in range(300))])
    assert set(place.lists()) == {"s-good"}
    assert 1 < len(place.warnings) <= 11
    assert "bad0" in place.warnings[0]
    assert "290 more" in place.warnings[-1]


# ---- long lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pages", "names"),
    [
        (
            {"": {"tools": [tool("a")], "nextCursor": "x"}, "x": {"tools": [tool("b")], "nextCursor": "x"}},
            "ab",
        ),
        (
            {
                "": {"tools": [tool("a")], "nextCursor": "x"},
                "x": {"tools": [tool("b")], "nextCursor": "y"},
                "y": {"tools": [tool("c")], "nextCursor": "x"},
            },
            "abc",
        ),
        (
            {"": {"tools": [tool("a")], "nextCursor": "x"}, "x": {"tools": [tool("a")], "nextCursor": "z"}},
            "a",
        ),
    ],
    ids=["the same cursor", "a round", "the same page"],
)
def test_a_list_that_goes_in_a_circle_ends(told, pages, names):
    place = told(pages)
    assert set(place.lists()) == {f"s-{name}" for name in names}
    (warning,) = place.warnings
    assert "MCP server s: its list of tools goes in a circle" in warning


@pytest.mark.parametrize("end", [0, False, {"a": 1}])
def test_a_cursor_that_is_none_ends_the_list(told, end):
    assert set(told({"": {"tools": [tool("a")], "nextCursor": end}}).lists()) == {"s-a"}


def test_a_cursor_may_be_a_number(told):
    pages = {"": {"tools": [tool("a")], "nextCursor": 2}, "2": {"tools": [tool("b")]}}
    assert set(told(pages).lists()) == {"s-a", "s-b"}


def test_thousands_of_tools_are_cut_off_and_told(told):
    place = told([tool(f"t{n}") for n in range(2_500)])
    assert len(place.lists()) == 2_000
    (warning,) = place.warnings
    assert "MCP server s: it lists more than 2,000 tools; the others are left out" in warning


def test_a_tool_that_is_listed_twice_is_there_once(told):
    place = told([tool("get"), tool("get", {}), tool("Get"), tool("get")])
    assert set(place.lists()) == {"s-get", "s-get-2"}
    (warning,) = place.warnings
    assert "MCP server s: it lists get more than once; the first one counts" in warning


# ---- results ---------------------------------------------------------------------------------------------

FINE = {"type": "text", "text": "fine"}
RESULTS = {
    "isError null": (
        {"content": [FINE], "isError": None, "structuredContent": None, "_meta": None},
        True,
        "fine",
    ),
    "isError text": ({"content": [FINE], "isError": "true"}, False, "fine"),
    "isError number": ({"content": [FINE], "isError": 0}, True, "fine"),
    "no content": ({}, True, "[no content]"),
    "content null": ({"content": None}, True, "[no content]"),
    "content text": ({"content": "fine"}, True, "fine"),
    "content one block": ({"content": FINE}, True, "fine"),
    "content of texts": ({"content": ["fine", FINE]}, True, "fine\nfine"),
    "an unknown block": (
        {"content": [FINE, {"type": "hologram", "x": 1}, FINE]},
        True,
        "fine\n[unknown content: hologram]\nfine",
    ),
    "an unknown block with text": (
        {"content": [{"type": "markdown", "text": "# fine"}]},
        True,
        "[unknown content: markdown]\n# fine",
    ),
    "a block without type": ({"content": [{"text": "fine"}]}, True, "fine"),
    "what is no block": ({"content": [FINE, 7, None]}, True, "fine\n7\nnull"),
    "text that is none": ({"content": [{"type": "text", "text": {"a": 1}}]}, True, '{"a": 1}'),
    "text without text": ({"content": [FINE, {"type": "text"}]}, True, "fine\n[unknown content: text]"),
    "an image without data": (
        {"content": [FINE, {"type": "image"}]},
        True,
        "fine\n[image: unknown type, 0 bytes]",
    ),
    "a resource without any": (
        {"content": [FINE, {"type": "resource"}]},
        True,
        "fine\n[unknown content: resource]",
    ),
    "binary": (
        {"content": [{"type": "resource", "resource": {"uri": "a://b", "blob": "QUJD"}}]},
        True,
        "[resource: a://b, unknown type, 3 bytes]",
    ),
    "odd annotations": ({"content": [{**FINE, "annotations": "none", "_meta": 7}]}, True, "fine"),
    "structured list": ({"content": [], "structuredContent": [1, 2]}, True, "[1, 2]"),
    "result null": (None, True, "[no content]"),
    "result text": ("fine", True, "fine"),
    "result list": ([FINE], True, "fine"),
    "result of another form": ({"answer": 42}, True, '{"answer": 42}'),
    "error text": ({"message": {"error": "out of paper"}}, False, "out of paper"),
    "error without a message": (
        {"message": {"error": {"code": "E_PAPER", "data": "none left"}}},
        False,
        '{"code": "E_PAPER", "data": "none left"}',
    ),
    "error without a code": ({"message": {"error": {"message": "out of paper"}}}, False, "out of paper"),
}


def test_the_readable_part_of_a_result_is_kept(told):
    answers = {f"t{n}": answer for n, (answer, _, _) in enumerate(RESULTS.values())}
    place = told([tool(name) for name in answers], answers)
    results = place.calls(*((f"s-{name}", {"q": "hi"}) for name in answers))
    found = {kind: (each.ok, each.text) for kind, each in zip(RESULTS, results, strict=True)}
    refused = "MCP server s refused the call of {}: {}"
    assert found == {
        kind: (ok, text if ok or not kind.startswith("error ") else refused.format(name, text))
        for name, (kind, (_, ok, text)) in zip(answers, RESULTS.items(), strict=True)
    }


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


STRUCTURED = [
    (NUMBER, {"n": 7}, ""),
    (NUMBER, {"n": "seven"}, "it.n must be integer"),
    (NUMBER, {}, "it must contain ['n'] properties"),
    (NUMBER, [7], "it must be object"),
    ({"type": 7}, {"n": 7}, "its schema cannot be used"),
    ("none", {"n": 7}, ""),
]


def test_structured_content_that_does_not_fit_is_told_beside_the_text(told):
    said = {"content": [{"type": "text", "text": "n is seven"}]}
    answers = {f"t{n}": {**said, "structuredContent": given} for n, (_, given, _) in enumerate(STRUCTURED)}
    schemas = [schema for schema, _, _ in STRUCTURED]
    place = told([tool(n, outputSchema=each) for n, each in zip(answers, schemas, strict=True)], answers)
    results = place.calls(*((f"s-{name}", {"q": "hi"}) for name in answers))
    for result, (_, _, wrong) in zip(results, STRUCTURED, strict=True):
        first, *more = result.text.splitlines()
        assert (result.ok, first, bool(more)) == (True, "n is seven", bool(wrong))
        assert not wrong or (wrong in more[0] and more[0].startswith("[its structured content does not fit"))


def test_structured_content_that_is_missing_is_no_fault(told):
    place = told([tool("ask", outputSchema=NUMBER)], {"ask": {"content": [FINE]}})
    (result,) = place.calls(("s-ask", {"q": "hi"}))
    assert (result.ok, result.text) == (True, "fine")
