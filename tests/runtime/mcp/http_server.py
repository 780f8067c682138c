"""An MCP server by the official SDK: `http_server.py http|sse|stdio [TOKEN]`; prints its address."""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel
from starlette.responses import PlainTextResponse

server = MCPServer("sdk", version="1", log_level="CRITICAL")
calls = 0


class Weather(BaseModel):
    city: str
    degrees: float


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: str) -> str:
    """Say a text again."""
    return text


@server.tool()
def count() -> int:
    """Count the calls."""
    global calls
    calls += 1
    return calls


@server.tool()
def weather(city: str, days: int = 1, unit: str | None = None) -> Weather:
    """Tell the weather of a city."""
    return Weather(city=city, degrees=21.5)


@server.tool()
def flood(mb: int) -> str:
    """Answer with very much."""
    return "x" * 1_000_000 * mb


@server.tool()
def broken() -> str:
    """Fail."""
    raise ToolError("the pump is broken")


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one more tool."""

    def grown() -> str:
        """A tool that was not there before."""
        return "new"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "one more"


def guarded(app, token: str):
    async def wrapped(scope, receive, send):
        if (
            scope["type"] == "http"
            and dict(scope["headers"]).get(b"authorization") != f"Bearer {token}".encode()
        ):
            await PlainTextResponse("no", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return wrapped


def main() -> None:
    kind, token = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "")
    if kind == "stdio":
        server.run()
        return
    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    path = "sse" if kind == "sse" else "mcp"
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/{path}", flush=True)
    config = uvicorn.Config(guarded(app, token) if token else app, log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
