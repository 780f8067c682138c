"""A workspace with MCP servers, and calls of their tools as the kernel makes them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from kernel.errors import FractalError
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.api.fractal import shipped_system
from runtime.mcp.client.servers import Servers
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.workspace import Workspace

FAKE = Path(__file__).with_name("fake_server.py")


def fake(kind: str = "plain", *marks: str, **more: Any) -> dict[str, Any]:
    """The entry of a fake server of that kind; by a mark, `process_list` finds it and what it starts."""
    return {"command": sys.executable, "args": [str(FAKE), kind, *marks], **more}


class Place:
    """A folder with a `.mcp.json`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start_seconds = 30.0
        self.warnings: list[str] = []
        self.sandbox = Sandbox()

    def write(self, servers: Mapping[str, Any]) -> Path:
        path = self.folder / ".mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
        return path

    def servers(self) -> Servers:
        workspace = Workspace.find(self.folder, shipped_system())
        return Servers(workspace, self.warnings.append, self.start_seconds, self.sandbox)

    def lists(self) -> dict[str, Tool]:
        """The tools by name, as a run would find them."""

        async def find(servers: Servers) -> dict[str, Tool]:
            return {tool.name: tool for tool in servers.tools()}

        return self.within(find)

    def within(self, work: Callable[[Servers], Coroutine[Any, Any, Any]]) -> Any:
        async def all_of_it() -> Any:
            async with self.servers() as servers:
                return await work(servers)

        return asyncio.run(all_of_it())

    def calls(self, *calls: tuple[str, Mapping[str, Any]], timeout: float = 20.0) -> list[Result]:
        """Make calls in one session, one after the other; of errors it makes what the kernel would."""

        async def make(servers: Servers) -> list[Result]:
            return [await call(servers, self.folder, name, args, timeout) for name, args in calls]

        return self.within(make)


async def call(
    servers: Servers, folder: Path, name: str, args: Mapping[str, Any], timeout: float = 20.0
) -> Result:
    tool = next(each for each in servers.tools() if each.name == name)
    assert tool.problem(args) == ""
    context = OperationContext(folder, Sandbox("off"), timeout=timeout)
    try:
        return await servers.run(context, tool, args)
    except FractalError as error:
        return Result(str(error), ok=False)
