"""References to results of earlier steps: finds, checks and fills them in.

A reference in a text is `{{ steps[N].result }}`, `{{ steps[N].result.key[0] }}` (a path into a JSON result)
or `{{ steps[N].evidence.key }}`. In a plan `{{ earlier[N].result }}` names a step of an earlier attempt. A
backslash before it (`\\{{ steps[`) makes it plain text. A shell command gets results as environment variables
instead: `$RESULT_N` holds the text, `$RESULT_N_FILE` the path of a file with it.

The text around a reference is not a template, and an inserted result is not searched for references.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from kernel.document.escaping import to_json
from kernel.document.model import Step
from kernel.errors import OperationFailed

Whose = Literal["steps", "earlier"]
"""What the number of a reference counts: the steps of its own plan, or of earlier attempts."""
SHELL = "command"
"""The name of arguments that a shell reads."""
FORM = "{{ steps[1].result }}, {{ steps[1].result.key[0] }} or {{ steps[1].evidence.key }}"
_BEGINNING = r"\{\{\s*(?:steps|earlier)\s*(?:\[|\.\s*[0-9])"
_WHOLE = (
    r"(?<!\\)\{\{\s*(?P<whose>steps|earlier)\[(?P<n>[0-9]{1,6})\]"
    r"\.(?P<of>result|evidence)(?P<path>(?:\.[\w-]+|\[[0-9]{1,6}\])*)\s*\}\}"
)
_OPENING = re.compile(_BEGINNING)
_OPENS = re.compile(rf"(?<!\\){_BEGINNING}")
_REFERENCE = re.compile(_WHOLE)
_FILLED = re.compile(rf"\\(?P<escaped>{_BEGINNING})|{_WHOLE}")
_PART = re.compile(r"\.([\w-]+)|\[([0-9]+)\]")
_VARIABLE = re.compile(r"\b(?P<whose>RESULT|EARLIER)_(?P<n>[0-9]{1,6})(?P<file>_FILE)?\b")
_WHOSE: Mapping[str, Whose] = {"RESULT": "steps", "EARLIER": "earlier"}  # of a variable


def references(value: Any, whose: Whose = "steps") -> set[int]:
    """The numbers of the steps that arguments, a criterion or a text refer to."""
    found: set[int] = set()
    for text, shell in _texts(value):
        for hit in (_VARIABLE if shell else _REFERENCE).finditer(text):
            if _WHOSE.get(hit["whose"], hit["whose"]) == whose:
                found.add(int(hit["n"]))
    return found


def in_shell(command: str) -> dict[str, str]:
    """A command as a shell argument, for the functions of this module."""
    return {SHELL: command}


def problem_in(value: Any) -> str:
    """What is wrong with the references in a value; "" if nothing is."""
    for text, shell in _texts(value):
        for hit in _OPENS.finditer(text):
            whole = _REFERENCE.match(text, hit.start())
            shown = whole[0] if whole else f"{text[hit.start() : hit.start() + 40]}…"
            if shell:
                n = whole["n"] if whole else 1
                return (
                    f"{shown} is in a shell command; use the environment variable "
                    f'"$RESULT_{n}" there, or the file "$RESULT_{n}_FILE"'
                )
            if not whole or (whole["of"] == "evidence" and not whole["path"]):
                return (
                    f"{shown} is no reference; it is {FORM}, without filters or operators. "
                    "Write \\{{ for braces that are plain text"
                )
    return ""


def substitute(
    value: Any, steps: Mapping[int, Step], whole: Callable[[Step], str] = lambda step: step.result or ""
) -> Any:
    """A copy of `value` with each reference replaced by what it refers to.

    `whole` returns a step's result. Raises `OperationFailed` for an invalid reference, and for one to a
    missing result.
    """
    if problem := problem_in(value):
        raise OperationFailed(problem)

    def filled(hit: re.Match[str]) -> str:
        return hit["escaped"] or _looked_up(hit, steps, whole)

    return changed(value, lambda text, shell: _FILLED.sub(filled, text))


def renumbered(value: Any, number: Callable[[Whose, int], int]) -> Any:
    """A copy of `value` with renumbered references, all of the form `steps[N]`."""

    def variable(hit: re.Match[str]) -> str:
        return f"RESULT_{number(_WHOSE[hit['whose']], int(hit['n']))}{hit['file'] or ''}"

    def reference(hit: re.Match[str]) -> str:
        n = number(cast(Whose, hit["whose"]), int(hit["n"]))
        return f"{{{{ steps[{n}].{hit['of']}{hit['path']} }}}}"

    return changed(
        value, lambda text, shell: _VARIABLE.sub(variable, text) if shell else _REFERENCE.sub(reference, text)
    )


def escaped(value: Any) -> Any:
    """A copy of `value` with all references escaped: `substitute` returns the original."""
    return changed(value, lambda text, shell: _OPENING.sub(lambda hit: f"\\{hit[0]}", text))


def changed(value: Any, change: Callable[[str, bool], str], shell: bool = False) -> Any:
    """A copy of a value with `change(text, shell)` applied to each text; `shell`: a shell reads it."""
    if isinstance(value, str):
        return change(value, shell)
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {key: changed(each, change, key == SHELL) for key, each in items}
    if isinstance(value, list | tuple):
        return [changed(each, change, shell) for each in cast(list[Any], value)]
    return value


def _looked_up(hit: re.Match[str], steps: Mapping[int, Step], whole: Callable[[Step], str]) -> str:
    n, path = int(hit["n"]), hit["path"]
    if hit["whose"] == "earlier" or n not in steps:
        raise OperationFailed(f"{hit[0]} cannot be filled in: there is no step {n}")
    value: Any = whole(steps[n]) if hit["of"] == "result" else steps[n].evidence
    if path and isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise OperationFailed(
                f"{hit[0]} cannot be filled in: the result of step {n} is no JSON"
            ) from None
    for key, index in _PART.findall(path):
        try:
            if not isinstance(value, dict if key else list):
                raise LookupError
            value = value[key or int(index)]  # type: ignore[index]
        except LookupError:
            part = key or f"[{index}]"
            raise OperationFailed(f"{hit[0]} cannot be filled in: there is no {part}") from None
    return value if isinstance(value, str) else to_json(value)


def _texts(value: Any) -> list[tuple[str, bool]]:
    """The texts in a value, each with whether a shell reads it."""
    found: list[tuple[str, bool]] = []

    def see(text: str, shell: bool) -> str:
        found.append((text, shell))
        return text

    changed(value, see)
    return found
