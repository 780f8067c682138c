"""A reflex for the sample of a tool that was built: the same task with other values needs no model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel.tools.tool import Tool
from runtime.evolution.files import File

_UNSPOKEN = re.compile(r"[\[\]{}()|<>]")
"""Signs that have a meaning of their own in a phrasing."""


def sample_reflex(tool: Tool, systems: Sequence[Path]) -> tuple[str, File] | None:
    """The name and file of a reflex that calls a tool as its sample does; None if words cannot say the call.

    Each required argument becomes a slot. The phrasings are the task of the sample, if it names all their
    values, and the tool's name with the values behind it.
    """
    import yaml

    from runtime.reflexes.procedure import Procedure, read, shared_words

    name, given = f"reflexes/{tool.name}.md", dict(tool.sample.get("args") or {})
    kinds = {each: _kind(tool, each, given.get(each)) for each in tool.required}
    if not tool.required or not all(kinds.values()) or any((each / name).exists() for each in systems):
        return None
    if kinds[tool.required[-1]] == "text":
        kinds[tool.required[-1]] = "line"  # the last one has the rest of the task
    values = [str(given[each]) for each in tool.required]
    short = " ".join([tool.name, *(f"{{{each}}}" for each in tool.required)])
    phrasings = [*_task_phrasing(tool, given), short]
    head = {
        "name": tool.name,
        "description": tool.description,
        "phrasings": "\n".join(phrasings) + "\n",
        "slots": kinds,
        "steps": [{"tool": tool.name, "args": {each: f"{{{{ {each} }}}}" for each in tool.required}}],
        "success": [{"step": 1}],
    }
    reads = ", ".join(f"{each} = {given[each]}" for each in tool.required)
    body = (
        f"# {tool.description}\n\nIts criterion only says that {tool.name} returned something. Write a "
        f"stricter one if you can.\n\n## Examples\n\n| you say | it reads |\n| --- | --- |\n"
        f"| {tool.name} {' '.join(values)} | {reads} |\n"
    )
    text = f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n{body}"
    readable = read(Path(name), text, shared_words(systems))
    return (name, File(text.encode(), False)) if isinstance(readable, Procedure) else None


def _task_phrasing(tool: Tool, given: Mapping[str, Any]) -> list[str]:
    """The task of the sample with a slot for each value, if it names the values of all required arguments."""
    phrase = str(tool.sample.get("task") or "").strip().rstrip(".?!")
    if _UNSPOKEN.search(phrase) or "\n" in phrase:
        return []
    for each in tool.required:
        found = re.compile(rf"(?<!\w)[\"']?{re.escape(str(given[each]))}[\"']?(?!\w)")
        if len(found.findall(phrase)) != 1:
            return []
        phrase = found.sub(f"{{{each}}}", phrase)
    return [phrase]


def _kind(tool: Tool, name: str, value: Any) -> str:
    """The kind of slot that reads an argument as its sample gives it; "" if none does."""
    kind = tool.args.get(name, {}).get("type", "string" if isinstance(value, str) else "")
    if kind in ("integer", "number") and isinstance(value, int | float):
        return str(kind)
    if kind != "string" or not isinstance(value, str) or not value or _UNSPOKEN.search(value):
        return ""
    if value in (tool.sample.get("files") or {}):
        return "path"
    return "url" if re.match(r"https?://", value) else "text"
