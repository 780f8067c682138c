"""Writes a tool or learned practice as an Agent Skill: a folder with a SKILL.md that other agents read."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from kernel import disk
from kernel.errors import UsageError
from kernel.tools.tool import Tool
from runtime.catalogue.skills import LONGEST_DESCRIPTION, LONGEST_NAME, NAME
from runtime.tool_files import files_in, program_of

PHASES = "Work in four phases. Names of tools are those of Fractal: use your own that do the same."
"""What the body of a guided tool needs for an agent that knows neither."""


def skill_text(name: str, description: str, body: str) -> str:
    """A SKILL.md; raises `UsageError` for a name or description that the format does not allow."""
    import yaml

    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name}: the name of a skill is of a-z, 0-9 and single -, at most {LONGEST_NAME} long"
        )
    description = " ".join(description.split())[:LONGEST_DESCRIPTION]
    head = yaml.safe_dump(
        {"name": name, "description": description}, sort_keys=False, allow_unicode=True, width=10_000
    )
    return f"---\n{head}---\n{body.strip()}\n"


def export_tool(tool: Tool, to: Path) -> Path:
    """Write the tool as a skill into a new folder in `to`, with its other files; returns the SKILL.md.

    Raises `UsageError` for an operation whose code is a part of Fractal or of a server.
    """
    if tool.scheme not in ("", "command"):
        owner = "a server" if tool.scheme == "mcp" else "Fractal"
        why = (
            f"{tool.name} is code of {owner}; only guidance, or a tool with a program of its own, is exported"
        )
        raise UsageError(why)
    text = skill_text(tool.name, tool.description, _body(tool))
    if tool.path.parent.name in ("operations", "kernel"):  # its folder is that of all operations
        beside = [program_of(tool)] if tool.scheme == "command" else []
    else:
        own = tool.path.parent.resolve()  # a link may lead to what is not meant to be passed on
        beside = [
            path
            for path in files_in(tool.path.parent)
            if path != tool.path and path.resolve().is_relative_to(own)
        ]
    return write_skill(text, to / tool.name, {path.relative_to(tool.path.parent): path for path in beside})


def write_skill(text: str, folder: Path, beside: dict[Path, Path] | None = None) -> Path:
    """Write a SKILL.md into a new folder, with files `beside` it by their paths in it; returns its path."""
    try:
        folder.mkdir(parents=True)
        for name, source in (beside or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
        disk.put(folder / "SKILL.md", text.encode())
    except FileExistsError:
        raise UsageError(f"{folder} exists; remove it, or choose another place with --to") from None
    except OSError as error:
        with suppress(OSError):
            disk.remove_all(folder)
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None
    return folder / "SKILL.md"


def _body(tool: Tool) -> str:
    if tool.skill:
        return tool.body
    if tool.guided:
        title = "" if tool.body.lstrip().startswith("# ") else f"# {tool.name}\n\n"
        opening, heading, rest = f"{title}{tool.body}".partition("\n## ")
        return f"{opening.rstrip()}\n\n{PHASES}\n{heading}{rest}" if heading else opening
    program = program_of(tool).relative_to(tool.path.parent.resolve())
    schema = {"type": "object", "properties": dict(tool.args), "required": list(tool.required)}
    returns = f" It returns {tool.returns}." if tool.returns else ""
    lines = [
        f"# {tool.name}",
        f"Run `{program}` of this folder in the folder that you work in. It reads one JSON object with its "
        f'arguments from standard input, and prints its result, or `{{"error": …}}`.{returns}',
        f"Its arguments, as JSON Schema:\n\n```json\n{json.dumps(schema, indent=2, ensure_ascii=False)}\n```",
    ]
    if args := tool.sample.get("args"):
        lines.append(f"For example:\n\n```json\n{json.dumps(args, ensure_ascii=False)}\n```")
    return "\n\n".join([*lines, tool.body])
