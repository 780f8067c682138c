"""Commands of the user that run before and after a call, and at the end of a run, inside the sandbox.

A command gets a JSON object on standard input. Exit code 2 stops a call that has not begun, or tells the
model something of one that has; what the command prints is the reason. Any other failure is told, and changes
nothing.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.redaction import redacted
from kernel.document.texts import cut
from kernel.errors import FractalError
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.secrets.redaction import redact

if TYPE_CHECKING:
    from runtime.sandbox.context import OperationContext

STOPS = 2
"""The exit code that stops a call."""
SHOWN = 2_000
"""Characters of what a hook prints that are kept."""
GIVEN = 100_000
"""Characters of a result that a hook is given."""
Call = Callable[["OperationContext", Tool, Mapping[str, Any]], Awaitable[Result]]
"""Makes one call of a tool."""


@dataclass(frozen=True)
class Hook:
    """A command, the tools whose calls it is for (none: all), and its time limit in seconds."""

    command: str
    tools: tuple[str, ...] = ()
    seconds: float = 30.0

    def suits(self, tool: str) -> bool:
        """Whether it is for a call of this tool."""
        return not self.tools or any(fnmatchcase(tool, each) for each in self.tools)

    def files(self, folder: Path) -> list[Path]:
        """The files that the command names, such as its program, as absolute paths that may be links."""
        try:
            words = shlex.split(self.command)
        except ValueError:
            words = self.command.split()
        found: list[Path] = []
        for word in words:
            with suppress(OSError, RuntimeError, ValueError):
                path = folder / Path(word).expanduser()
                if path.is_file():
                    found.append(Path(os.path.normpath(path)))
        return found


@dataclass(frozen=True)
class Hooks:
    """The hooks of a run, in the order in which they run."""

    before: Sequence[Hook] = ()
    after: Sequence[Hook] = ()
    end: Sequence[Hook] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.end)

    def files(self, folder: Path, *within: Path) -> list[Path]:
        """The files that the commands name from a folder, if they lie in it or in another one of these."""
        named = (path for hook in (*self.before, *self.after, *self.end) for path in hook.files(folder))
        return [path for path in dict.fromkeys(named) if {folder, *within}.intersection(path.parents)]


@dataclass(frozen=True)
class _Ran:
    hook: Hook
    exit: int
    said: str

    def __str__(self) -> str:
        said = f": {' '.join(self.said.split())[:200]}" if self.exit and self.said else ""
        return f"{self.hook.command}: {f'exit {self.exit}' if self.exit >= 0 else 'failed'}{said}"


async def _run(context: OperationContext, hook: Hook, given: Mapping[str, Any], *, writes: bool) -> _Ran:
    text = json.dumps(given, ensure_ascii=False, default=str)
    programs = tuple(hook.files(context.folder))
    try:
        ran = await context.run(
            hook.command,
            own=programs,
            stdin=text,
            timeout=hook.seconds,
            read_only=not writes,
            network=context.network,
        )
    except FractalError as error:
        return _Ran(hook, -1, str(error))
    said = cut(redact(ran.shown.strip()), SHOWN, "")
    if ran.timed_out:
        return _Ran(hook, -1, f"stopped after {hook.seconds:g} s")
    return _Ran(hook, ran.exit, said)


def hooked(call: Call, hooks: Hooks, run: str, warn: Callable[[str], None]) -> Call:
    """The same call with its hooks. What they did is evidence of the step."""

    async def with_hooks(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        given = {"run": run, "tool": tool.name, "args": redacted(dict(args), redact)}
        writes, told = _writes(context, tool, args), list[str]()
        for hook in hooks.before:
            if hook.suits(tool.name):
                ran = await _run(context, hook, {"event": "before", **given}, writes=False)
                told.append(f"before: {ran}")
                if ran.exit == STOPS:
                    why = ran.said or hook.command
                    return Result(f"a hook stopped this call: {why}", ok=False, evidence={"hooks": told})
                _tell(ran, warn)
        result = await call(context, tool, args)
        given["result"] = {"text": cut(redact(result.text), GIVEN, ""), "ok": result.ok}
        said: list[str] = []
        for hook in hooks.after:
            if hook.suits(tool.name):
                ran = await _run(context, hook, {"event": "after", **given}, writes=writes)
                told.append(f"after: {ran}")
                if ran.exit == STOPS:
                    said.append(f"[hook: {ran.said or hook.command}]")
                else:
                    _tell(ran, warn)
        if not told:
            return result
        text = "\n".join(filter(None, [result.text, *said]))
        return replace(result, text=text, evidence={**result.evidence, "hooks": told})

    return with_hooks


def _tell(ran: _Ran, warn: Callable[[str], None]) -> None:
    if ran.exit:
        warn(f"hook {ran}")


def _writes(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> bool:
    """Whether the call may change files, so that a snapshot is taken before it: then its hooks may, too."""
    if tool.scheme == "memory" or not tool.changes(args):
        return False
    function = tool.function if tool.in_process else None
    prepare = getattr(function, "prepare", None)
    if prepare and not getattr(function, "folders", False):
        with suppress(Exception):  # the call itself reports it
            return bool(prepare(context, **args))
    return True


async def at_end(
    context: OperationContext, hooks: Iterable[Hook], given: Mapping[str, Any], warn: Callable[[str], None]
) -> list[str]:
    """Run the hooks at the end of a run; returns what each did. Nothing can be changed any more."""
    told: list[str] = []
    for hook in hooks:
        ran = await _run(context, hook, {"event": "end", **given}, writes=False)
        told.append(f"end: {ran}")
        _tell(ran, warn)
    return told
