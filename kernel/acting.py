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

from kernel import disk, turns
from kernel.errors import ConfigurationError, FractalError, OperationFailed, explained
from kernel.operations import OperationContext, Result
from kernel.screening import neutralise
from kernel.tools import Tool

Runner = Callable[[OperationContext, Tool, Mapping[str, Any]], Awaitable[Result]]
"""Makes one call of a tool; what goes wrong is a Result that is not `ok`, or an error of Fractal's."""
KEEP_CHARS = 10_000
"""Of what a state machine's program wants kept for its next call, as JSON."""
KEEP_LEVELS = 20
_INTERPRETERS: Mapping[str, str] = {".py": sys.executable, ".sh": "bash"}


async def carry_out(
    context: OperationContext, tool: Tool, args: Mapping[str, Any], runners: Mapping[str, Runner]
) -> Result:
    """Make the call within the tool's time.

    Whatever it raises is a result that is not `ok`: a fault in its code is no end of a run.
    """
    limit = asyncio.timeout(tool.timeout or None)
    try:
        async with limit:
            return await act(context, tool, args, runners)
    except Exception as error:
        if limit.expired():
            return Result(f"{tool.name} took longer than {tool.timeout:g} s and was stopped", ok=False)
        failed = "" if isinstance(error, FractalError) else f"{tool.name} failed: "
        return Result(failed + explained(error), ok=False)


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
        value = await _in_a_thread(lambda: _in_turn(context, function, args))
    return value if isinstance(value, Result) else Result(str(value))


async def _in_a_thread(act: Callable[[], Any]) -> Any:
    """A thread cannot be stopped: once nobody waits for it any more, it changes no file."""
    given = disk.Leave()
    before = disk.leave.set(given)
    try:
        return await asyncio.to_thread(act)
    finally:
        given.withdraw()
        disk.leave.reset(before)


def _in_turn(context: OperationContext, function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call it; what reads files of the folder and writes them anew does so alone, so that no change is lost.

    What waits for the network keeps nobody waiting.
    """
    if getattr(function, "prepare", None) is None or "network" in context.effects:
        return function(context, **args)
    with turns.alone(context.folder, context.timeout / 2, _busy):
        return function(context, **args)


def _busy() -> OperationFailed:
    return OperationFailed("another call is changing files of this folder; try again")


async def _command(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
    """A program beside the tool's markdown: JSON on standard input, text or JSON on standard output.

    An object is read for `result`, `error`, and `keep` (what a state machine's next call is given).
    """
    folder = tool.path.parent.resolve()
    given = {**args, "kept": dict(context.kept)} if tool.states else dict(args)
    ran = await context.run(
        command_of(tool),
        own=(folder,),
        stdin=json.dumps(given),
        timeout=context.seconds,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        read_only="write" not in tool.effects,
        network="network" in tool.effects and context.network,
    )
    text, error, keep = _told(ran.output)
    if keep is not None and (why := _too_much(keep)):
        return Result(f"{text}\n[{why}]", False, ran.evidence)
    good = not (ran.exit or ran.timed_out or error)
    return Result(ran.marked(text, context.seconds), good, ran.evidence, keep)


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
