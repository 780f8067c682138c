"""Converts the list of a server into tools of the catalogue: names, one line, arguments, effects.

The list is untrusted. Only a cleaned name, the names of arguments and one line reach a prompt. Schemas are
reduced to types, choices and descriptions, so that validating an argument stays cheap and safe.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from kernel.tools.tool import Tool
from runtime.catalogue.schemas import checker
from runtime.mcp.client.configured import Entry
from runtime.text.lines import shortened
from runtime.text.terminal import neutralise

NAME = 64
LINE = 160
"""Characters of a description's first line that are kept."""
SKETCH = 240
"""Characters for the types of arguments that are not strings."""
DEPTH = 4
"""Levels of an argument that are described; deeper values are unrestricted."""
MOST = 2_000
"""The most tools of one server."""
MOST_TOLD = 10
"""The most messages about the skipped tools of one server."""
LARGEST_SCHEMA = 200_000
"""The most characters of the schema of one tool's arguments."""
TOO_LARGE = "its argument schema is too large"
_PLAIN = ("string", "integer", "number", "boolean", "array", "object")
_ARGUMENT = re.compile(r"[A-Za-z_$@][\w$@.:-]{0,63}")
_WORD = re.compile(r"[\w .:/@+-]{1,64}")

Raw = Mapping[str, Any]


def kept(tools: Sequence[Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """The parts of a server's answer that are cached on disk, and what is left out of it.

    A tool whose schema is too large keeps the beginning of it, which is told wherever the list is read.
    """
    names = ("name", "title", "description", "inputSchema", "annotations")
    usable: list[dict[str, Any]] = []
    for tool in tools[:MOST]:
        given = _dict(tool)
        raw = {name: given[name] for name in names if given.get(name) is not None}
        if isinstance(raw.get("description"), str):
            raw["description"] = raw["description"][:2_000]
        if len(schema := _shown(raw.get("inputSchema"))) > LARGEST_SCHEMA:
            raw["inputSchema"] = f"{TOO_LARGE}: {schema[:100]}"
        usable.append(raw)
    more = len(tools) > MOST
    return usable, [f"it lists more than {MOST:,} tools; the others are left out"] if more else []


def _shown(value: Any) -> str:
    try:
        return str(value)
    except RecursionError:
        return " " * (LARGEST_SCHEMA + 1)


def tools_of(
    entry: Entry, listed: Sequence[Raw], reserved: Collection[str] = ()
) -> tuple[list[Tool], list[str]]:
    """The tools of a server, and messages about what is skipped; a name in `reserved` gets a number."""
    used, seen, twice = set(reserved), set[str](), dict[str, None]()
    tools: list[Tool] = []
    troubles: list[str] = []
    for raw in listed:
        remote = raw.get("name")
        if not isinstance(remote, str) or not remote.strip() or len(remote) > 200 or not remote.isprintable():
            troubles.append(f"skipped a tool with the invalid name {str(remote)[:40]!r}")
            continue
        if remote in seen:
            twice[remote] = None
            continue
        seen.add(remote)
        name = _free(_clean(entry.name, remote), used)
        try:
            tools.append(_tool(entry, name, remote, raw))
            used.add(name)
        except (ValueError, RecursionError) as error:
            troubles.append(f"skipped {remote[:60]}: {error}")
    if twice:
        names = ", ".join(each[:60] for each in list(twice)[:MOST_TOLD])
        troubles.append(f"it lists {names} more than once; the first one counts")
    if more := troubles[MOST_TOLD:]:
        troubles = [*troubles[:MOST_TOLD], f"{len(more)} more tools are skipped"]
    return tools, troubles


def _tool(entry: Entry, name: str, remote: str, raw: Raw) -> Tool:
    schema = _schema_in(raw.get("inputSchema"))
    properties, required = _Schemas(schema).arguments(schema)
    hints = _dict(raw.get("annotations"))
    reads = hints.get("readOnlyHint") is True
    effects = ["read" if reads else "write"]
    if hints.get("openWorldHint") is not False:  # the default of the specification
        effects.append("network")
    title = raw.get("title") or hints.get("title")
    line = _line(raw.get("description")) or _line(title) or remote
    sketch = _sketch(properties)
    return Tool(
        name,
        entry.source,
        f"{line} ({sketch})" if sketch else line,
        properties,
        required,
        run=f"mcp: {entry.name}/{remote}",
        effects=tuple(effects),
        idempotent=reads or hints.get("idempotentHint") is True,
        origin="mcp",
        operation=True,
        destructive=hints.get("destructiveHint") is True and not reads,
        check=checker(properties),
    )


def _schema_in(given: Any) -> dict[str, Any]:
    """The schema of a tool's arguments, mended where it is plain what is meant. Else raises `ValueError`."""
    if isinstance(given, str):
        if given.startswith(TOO_LARGE):
            raise ValueError(TOO_LARGE)
        with suppress(ValueError):
            given = json.loads(given)
    if given is None or given is True:  # any arguments
        return {}
    if not isinstance(given, dict):
        raise ValueError("its argument schema is not an object")
    schema = cast(dict[str, Any], given)
    properties = schema.get("properties")
    if isinstance(properties, list):  # each with its name
        named = [each for each in cast(list[Any], properties) if isinstance(_dict(each).get("name"), str)]
        if len(named) == len(cast(list[Any], properties)):
            properties = {each["name"]: each for each in named}
    if properties is not None and not isinstance(properties, dict):
        raise ValueError("the properties of its argument schema are not an object")
    kind = schema.get("type", "object")
    kinds = [str(each).lower() for each in (cast(list[Any], kind) if isinstance(kind, list) else [kind])]
    if properties is None and kind is not None and "object" not in kinds:
        raise ValueError(f"its arguments are of the type {str(kind)[:40]}, and not an object")
    return {**schema, "properties": properties}


def _clean(server: str, tool: str) -> str:
    """`server-tool` of a–z, 0–9 and -; a name above 64 characters is cut and gets a hash."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", f"{server}-{tool}")
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    if not re.match(r"[a-z]", name):
        name = f"mcp-{name}"
    if len(name) > NAME:
        digest = hashlib.sha256(f"{server}/{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
        name = f"{name[: NAME - 7].rstrip('-')}-{digest}"
    return name


def _free(name: str, used: Collection[str]) -> str:
    number = 2
    free = name
    while free in used:
        suffix = f"-{number}"
        free = f"{name[: NAME - len(suffix)].rstrip('-')}{suffix}"
        number += 1
    return free


def _line(text: Any) -> str:
    """The first line with text, neutralised and cut."""
    if not isinstance(text, str):
        return ""
    lines = (neutralise(" ".join(line.split())) for line in text[:2_000].splitlines())
    first = next((line for line in lines if line.strip("#*=- ")), "")
    return first if len(first) <= LINE else f"{first[: LINE - 1].rstrip()}…"


class _Schemas:
    """The schemas of one tool, with their definitions and a limit on how many are read."""

    def __init__(self, schema: Raw) -> None:
        self.left = 400  # bounds schemas that refer to themselves
        self.definitions: dict[str, Any] = {}
        for key in ("$defs", "definitions"):
            for name, each in _dict(schema.get(key)).items():
                self.definitions[f"#/{key}/{name}"] = each

    def arguments(self, schema: Raw) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The arguments and the names of the required ones; those of alternatives are optional."""
        resolved = self._resolved(schema)
        given = resolved.get("required")
        given = [given] if isinstance(given, str) else _list(given)
        required = [name for name in given if isinstance(name, str)]
        described = _dict(resolved.get("properties")).items()  # an older form says it of each argument
        required += [name for name, each in described if _dict(each).get("required") is True]
        branches = [each for key in ("anyOf", "oneOf", "allOf") for each in _list(resolved.get(key))]
        arguments: dict[str, Any] = {}
        for branch in (resolved, *map(self._resolved, branches)):
            for name, property in _dict(branch.get("properties")).items():
                if _ARGUMENT.fullmatch(name):
                    arguments.setdefault(name, self._plain(property, DEPTH, name in required))
        for name in required:
            if not _ARGUMENT.fullmatch(name):
                raise ValueError(f"its argument {name[:40]!r} has an invalid name")
            arguments.setdefault(name, {})
        return arguments, tuple(dict.fromkeys(required))

    def _plain(self, schema: Any, depth: int, needed: bool) -> dict[str, Any]:
        """The type, items, properties, choices and description of a schema."""
        self.left -= 1
        if self.left < 0 or not depth:
            return {}
        resolved = self._resolved(schema)
        if not needed:
            resolved = self._present(resolved)
        plain: dict[str, Any] = {}
        kind = resolved.get("type")
        kind = kind.lower() if isinstance(kind, str) else None
        if kind in _PLAIN:
            plain["type"] = kind
        choices = _list(resolved.get("enum"))
        words = [each for each in choices if isinstance(each, str) and _WORD.fullmatch(each)]
        if 0 < len(words) == len(choices) <= 40 and kind in ("string", None):
            plain["enum"] = words
        if line := _line(resolved.get("description")):
            plain["description"] = line
        if kind == "array" and isinstance(resolved.get("items"), dict):
            plain["items"] = self._plain(resolved["items"], depth - 1, True)
        if kind == "object":
            plain |= self._inner(resolved, depth)
        return plain

    def _inner(self, resolved: Raw, depth: int) -> dict[str, Any]:
        required = _list(resolved.get("required"))
        inner = {
            name: self._plain(each, depth - 1, name in required)
            for name, each in list(_dict(resolved.get("properties")).items())[:40]
            if _ARGUMENT.fullmatch(name)
        }
        return (
            {"properties": inner, "required": [each for each in required if each in inner]} if inner else {}
        )

    def _present(self, resolved: Raw) -> dict[str, Any]:
        """Drop null from the types of an optional value if one other type remains."""
        kinds = [each for each in _list(resolved.get("type")) if each != "null"]
        if len(kinds) == 1:
            return {**resolved, "type": kinds[0]}
        options = [self._resolved(each) for key in ("anyOf", "oneOf") for each in _list(resolved.get(key))]
        options = [each for each in options if each.get("type") != "null"]
        return {**resolved, **options[0]} if len(options) == 1 else dict(resolved)

    def _resolved(self, schema: Any) -> dict[str, Any]:
        """The schema with its `$ref` resolved, within the same document only; a name of a type is one."""
        resolved = {"type": schema} if isinstance(schema, str) else _dict(schema)
        for _ in range(DEPTH):
            reference = resolved.get("$ref")
            if not isinstance(reference, str):
                break
            beside = {key: value for key, value in resolved.items() if key != "$ref"}
            resolved = {**_dict(self.definitions.get(reference)), **beside}
        return resolved


def _dict(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _sketch(properties: Raw) -> str:
    """The types of the arguments that are not strings, for a model to fill them in."""
    parts = [f"{name}: {_kind(each)}" for name, each in properties.items() if _kind(each) != "string"]
    return shortened("; ".join(parts), SKETCH)


def _kind(plain: Raw) -> str:
    if "enum" in plain:
        return "|".join(plain["enum"])
    kind = plain.get("type", "any")
    if kind == "array":
        return f"[{_kind(plain['items'])}]" if "items" in plain else "[…]"
    if kind == "object" and "properties" in plain:
        inner = plain["properties"].items()
        fields = (f"{name}{'' if name in plain['required'] else '?'}: {_kind(each)}" for name, each in inner)
        return f"{{{', '.join(fields)}}}"
    return str(kind)
