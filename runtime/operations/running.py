"""Runs the call of a tool: a function of Fractal or of a plugin, or a program beside its markdown.

Other code never runs in Fractal's process.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

from kernel import disk
from kernel.errors import ConfigurationError, FractalError, OperationFailed, explained
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime import locks
from runtime.sandbox.context import OperationContext
from runtime.text.terminal import neutralise, printed
from runtime.tool_files import program_of

KEEP_CHARS = 10_000
"""Maximum characters of the JSON that a state machine's program keeps for its next call."""
KEEP_LEVELS = 20
_INTERPRETERS: Mapping[str, str] = {".py": sys.executable, ".sh": "bash"}
Runner = Callable[[OperationContext, Tool, Mapping[str, Any]], Awaitable[Result]]
"""Makes one call of a tool. A failure is a `Result` that is not `ok`, or a `FractalError`."""


async def carry_out(
    context: OperationContext, tool: Tool, args: Mapping[str, Any], runners: Mapping[str, Runner]
) -> Result:
    """Make a call within the tool's time limit. Any exception becomes a result that is not `ok`."""
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
    """Make a call with the runner for the scheme of the tool's `run:`."""
    if tool.scheme not in runners:
        raise OperationFailed(f"{tool.path}: run: {tool.run!r} is of no kind that can be run here")
    executed = [tool.path.parent] if tool.scheme == "command" else []
    for folder in (*executed, *context.places):
        if why := context.sandbox.why_not_executed(folder):
            raise OperationFailed(why)
    return await runners[tool.scheme](context, tool, args)


async def _function(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
    """Call a function that ships with Fractal, or one of a plugin, which the user has installed."""
    function = tool.function
    if inspect.iscoroutinefunction(function):
        value = await function(context, **args)
    else:
        value = await _in_a_thread(lambda: _in_turn(context, function, args))
    return value if isinstance(value, Result) else Result(str(value))


async def _in_a_thread(act: Callable[[], Any]) -> Any:
    """Run in a thread. A thread cannot be stopped, but it cannot change files once this returns."""
    given = disk.WritePermission()
    before = disk.write_permission.set(given)
    try:
        return await asyncio.to_thread(act)
    finally:
        given.withdraw()
        disk.write_permission.reset(before)


def _in_turn(context: OperationContext, function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a function; one that changes files of the folder runs exclusively, so that no change is lost.

    A function that uses the network does not block others.
    """
    if getattr(function, "prepare", None) is None or "network" in context.effects:
        return function(context, **args)
    with locks.lock(context.folder, context.timeout / 2, _busy):
        return function(context, **args)


def _busy() -> OperationFailed:
    return OperationFailed("another call is changing files of this folder; try again")


async def _command(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
    """Run a program beside the tool's markdown: JSON on standard input, text or JSON on standard output.

    A JSON object may have `result`, `error`, and `keep` (data for a state machine's next call).
    """
    folder = tool.path.parent.resolve()
    given = {**args, "kept": dict(context.kept)} if tool.states else dict(args)
    ran = await context.run(
        command_of(tool),
        own=(folder,),
        stdin=json.dumps(given),
        timeout=context.seconds,
        read_only="write" not in tool.effects_of(args),
        network="network" in tool.effects and context.network,
    )
    text, error, keep = _read(printed(ran.output))
    if keep is not None and (why := _too_much(keep)):
        return Result(f"{text}\n[{why}]", False, ran.evidence)
    good = not (ran.exit or ran.timed_out or error)
    return Result(ran.marked(text, context.seconds), good, ran.evidence, keep)


def command_of(tool: Tool) -> list[str]:
    """The command line of a tool's program."""
    program = program_of(tool)
    if interpreter := _INTERPRETERS.get(program.suffix):
        return [interpreter, str(program)]
    if not os.access(program, os.X_OK):
        raise ConfigurationError(f"{tool.path}: run: {program.name} cannot be executed; chmod +x {program}")
    return [str(program)]


def _read(printed: str) -> tuple[str, bool, Mapping[str, Any] | None]:
    """A program's output: its text, whether it is an error, and the data to keep."""
    text, error, keep = printed, False, None
    with suppress(ValueError, RecursionError):
        value = json.loads(printed)
        if isinstance(value, dict):
            reply = cast(dict[str, Any], value)
            error = bool(reply.get("error"))
            value = str(reply["error"]) if error else reply.get("result")
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if not error and isinstance(reply.get("keep"), dict):
                keep = cast(dict[str, Any], reply["keep"])
        elif isinstance(value, str):
            text = value
    return neutralise(text).removesuffix("\n"), error, keep  # also controls that JSON had escaped


def _too_much(keep: Mapping[str, Any]) -> str:
    """Why data is too large to be kept in the document; "" if it is not."""
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


RUNNERS: Mapping[str, Runner] = {"python": _function, "plugin": _function, "command": _command}
"""What runs a call, by the scheme of the tool's `run:`."""


def caller(**others: Runner) -> Runner:
    """What makes the calls of tools; `others` are runners beside those of this module."""
    return partial(carry_out, runners={**RUNNERS, **others})
