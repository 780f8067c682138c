"""The files of a tool: its markdown, the program beside it, and what else is in its folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernel.errors import ConfigurationError
from kernel.tools.tool import Tool


def fingerprint_of(tool: Tool) -> str:
    """The hash of the names and bytes of a tool's files, which detects changes since its test."""
    whole = hashlib.sha256()
    beside = tool.path.parent.name in ("operations", "kernel")
    program = program_of(tool) if tool.scheme == "command" else None
    paths = [tool.path, *([program] if program else [])] if beside else files_in(tool.path.parent)
    for path in paths:
        raw = path.read_bytes() if path.is_file() else b""
        whole.update(f"{path.name}\0{len(raw)}\0".encode("utf-8", "surrogateescape") + raw)
    return whole.hexdigest()[:16]


def program_of(tool: Tool) -> Path:
    """The program of `run: "command: ./tool.py"`; raises `ConfigurationError` if it does not exist."""
    program = (tool.path.parent / tool.run.removeprefix("command:").strip()).resolve()
    beside = tool.path.parent.resolve() in program.parents and "__pycache__" not in program.parts
    if not (beside and program.is_file()):
        raise ConfigurationError(f"{tool.path}: run: there is no program {program.name} beside it")
    return program


def files_in(folder: Path) -> list[Path]:
    """The files of a tool's folder in a stable order, without bytecode caches."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(found)
