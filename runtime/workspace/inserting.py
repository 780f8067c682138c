"""Inserts an approved call into the text of a settings file, so that its comments and order stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

ABOUT = "# calls that run here without asking (fractal approve --always); without its line a call asks again"


def with_call(text: str, call: Mapping[str, Any]) -> str | None:
    """The text of a settings file with one more call under `approved`; None if that is not safe.

    The call is inserted as a line of text, so that comments and order stay. What comes out is read again, and
    has to be the settings that were there, with the call.
    """
    import yaml

    end = "\r\n" if "\r\n" in text else "\n"
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        before: Any = yaml.safe_load(text) or {}
        new = _inserted(text, root, line_of(call), end)
        after: Any = yaml.safe_load(new)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    calls = [*(cast(dict[str, Any], before).pop("approved", None) or ()), dict(call)]
    added = cast(dict[str, Any], after).pop("approved", None)
    same = isinstance(added, list) and sorted(map(repr, cast(list[Any], added))) == sorted(map(repr, calls))
    return new if same and before == after else None


def _inserted(text: str, root: Any, line: str, end: str) -> str:
    pairs = root.value if root is not None and root.id == "mapping" else []
    found = next((value for key, value in pairs if key.value == "approved"), None)
    if found is None:
        start = "" if text.strip() in ("{}", "") else text if text.endswith("\n") else f"{text}{end}"
        return f"{start}{ABOUT}{end}approved:{end}- {line}{end}"
    at = found.start_mark
    if not isinstance(found.value, list):  # `approved:` with nothing behind it
        return f"{text[: at.index]}{end}- {line}{text[at.index :]}"
    if found.flow_style:
        return f"{text[: at.index + 1]}{line}{', ' if found.value else ''}{text[at.index + 1 :]}"
    return f"{text[: at.index]}- {line}{end}{' ' * at.column}{text[at.index :]}"


def line_of(call: Mapping[str, Any]) -> str:
    """The call as YAML on one line."""
    import yaml

    return yaml.safe_dump(
        dict(call), default_flow_style=True, sort_keys=False, allow_unicode=True, width=1_000_000
    ).strip()
