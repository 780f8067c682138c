"""What runs a tool that is no guided loop: a function that ships, a program beside its markdown, or a server.

Written code never runs inside the kernel's process.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from kernel.errors import ConfigurationError, OperationFailed
from kernel.operations import OperationContext, Result
from kernel.process import GRACE
from kernel.sandbox import neutralise
from kernel.tools import Tool

Runner = Callable[[OperationContext, Tool, Mapping[str, Any]], Awaitable[Result]]
"""Makes one call of a tool; what goes wrong is a Result that is not `ok`, or an error of Fractal's."""
KEEP_CHARS = 10_000
"""Of what a state machine's program wants kept for its next call, as JSON."""
KEEP_LEVELS = 20
_INTERPRETERS: Mapping[str, str] = {".py": sys.executable, ".sh": "bash"}


async def act(
    context: OperationContext, tool: Tool, args: Mapping[str, Any], runners: Mapping[str, Runner]
) -> Result:
    """Make the call, by whatever the scheme of the tool's `run:` names."""
    known: Mapping[str, Runner] = {"python": _function, "command": _command, **runners}
    if tool.scheme not in known:
        raise OperationFailed(f"{tool.path}: run: {tool.run!r} is of no kind that can be run here")
    return await known[tool.scheme](context, tool, args)


async def _function(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
    function = tool.function
    if inspect.iscoroutinefunction(function):
        value = await function(context, **args)
    else:
        value = await asyncio.to_thread(function, context, **args)
    return value if isinstance(value, Result) else Result(str(value))


async def _command(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
    """A program beside the tool's markdown: JSON on standard input, text or JSON on standard output.

    An object is read for `result`, `error`, and `keep` (what a state machine's next call is given).
    """
    folder = tool.path.parent.resolve()
    given = {**args, "kept": dict(context.kept)} if tool.states else dict(args)
    seconds = max(context.timeout - GRACE - 1, context.timeout / 2)  # ends before the step's own time is up
    ran = await context.sandbox.run(
        command_of(tool),
        folder=context.folder,
        stdin=json.dumps(given),
        timeout=seconds,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        protected=(*context.protected, folder),
        seen=(folder, *context.places),
        private=context.private,
        read_only="write" not in tool.effects,
        network="network" in tool.effects and context.network,
    )
    evidence = {"exit": ran.exit, "mode": ran.mode, "seconds": round(ran.seconds, 3)}
    text, error, keep = _told(ran.output)
    if keep is not None and (why := _too_much(keep)):
        return Result(f"{text}\n[{why}]", False, evidence)
    marks = [f"[stopped after {seconds:g} s]"] if ran.timed_out else []
    marks += [f"[exit {ran.exit}]"] if ran.exit else []
    good = not (ran.exit or ran.timed_out or error)
    return Result("\n".join([text, *marks] if text else marks), good, evidence, keep)


def command_of(tool: Tool) -> list[str]:
    """The words that start a tool's program."""
    program = tool.program
    if interpreter := _INTERPRETERS.get(program.suffix):
        return [interpreter, str(program)]
    if not os.access(program, os.X_OK):
        raise ConfigurationError(f"{tool.path}: run: {program.name} cannot be executed; chmod +x {program}")
    return [str(program)]


def _told(printed: str) -> tuple[str, bool, Mapping[str, Any] | None]:
    """What a program printed: its text, whether it told of an error, and what it wants kept."""
    text, error, keep = _read(printed)
    return neutralise(text).removesuffix("\n"), error, keep  # what JSON had escaped, too


def _too_much(keep: Mapping[str, Any]) -> str:
    """Why something cannot be kept: it stands in the document as long as the loop lasts."""
    level: list[Any] = [keep]
    for _ in range(KEEP_LEVELS):
        level = [inner for each in level for inner in _inside(each)]
    if level:
        return f"keep: more than {KEEP_LEVELS} levels"
    size = len(json.dumps(keep))
    return f"keep: {size} characters, and {KEEP_CHARS} at most can be kept" if size > KEEP_CHARS else ""


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast(dict[str, Any], value).values())
    return cast(list[Any], value) if isinstance(value, list) else []


def _read(output: str) -> tuple[str, bool, Mapping[str, Any] | None]:
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return output, False, None
    if not isinstance(value, dict):
        return (value if isinstance(value, str) else output), False, None
    told = cast(dict[str, Any], value)
    kept = cast(Mapping[str, Any], told["keep"]) if isinstance(told.get("keep"), dict) else None
    if told.get("error"):
        return str(told["error"]), True, None
    result = told.get("result")
    if result is None:
        return output, False, kept
    return (result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)), False, kept
