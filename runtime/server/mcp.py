"""Fractal as an MCP server: its tools, its documents as resources, over standard input and output or HTTP."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from kernel.deciding import Decider, plain_name
from kernel.errors import FractalError, UsageError
from kernel.tools import Tool
from runtime import __version__
from runtime.server.runs import Runs, Standing

WAIT = 50.0
"""Seconds that a call waits for a run unless told otherwise: many clients give a call a minute."""
LONGEST = 3_600.0
SIGN_IN = b'Bearer realm="fractal"'
ABOUT = """\
Fractal does a task in a folder: it plans, acts, checks against evidence, and records all of it in markdown.
`run` starts a task and waits for it a while; one that is still `running` is asked for with `status`; one that
is `waiting` wants `answer`, `approve` or `reject` from a person. `read_document` shows what was done."""


class State(BaseModel):
    """How a run stands, and what can be done next."""

    run: str = Field(description="the run's id, for all other tools")
    status: str = Field(
        description="running, waiting, complete, failed, escalated, exhausted, cancelled or interrupted"
    )
    result: str = Field("", description="what the run came to, or what there is of it")
    question: str = Field("", description="what a person is asked, while it waits")
    waits_for: str = Field("", description="answer or approval, while it waits")
    reason: str = Field("", description="why it did not end well")
    doing: str = Field("", description="what happened last, while it runs")
    next: str = Field("", description="the call that leads on")
    task: str = ""
    document: str = Field("", description="the document at the run's root, for read_document")
    spent: dict[str, Any] = Field(default_factory=dict)


class Listed(BaseModel):
    """A run in a list."""

    run: str
    status: str
    task: str
    created: str
    updated: str


class RunList(BaseModel):
    """Runs, newest first."""

    runs: list[Listed]


class ToolEntry(BaseModel):
    """A tool or an operation of the catalogue."""

    name: str
    signature: str
    description: str
    effects: list[str]
    args: dict[str, Any]
    required: list[str]
    kind: str = Field(description="operation, guided (its one argument is what, a task in words), or mcp")


class ToolList(BaseModel):
    """What `call_tool` can call."""

    tools: list[ToolEntry]


class Page(BaseModel):
    """A document as it stands on the disk."""

    id: str
    path: str
    markdown: str


def state_of(standing: Standing) -> State:
    """A run's standing as clients see it."""
    result = standing.result
    run = result.run
    kind = {"person": "answer", "approval": "approval"}.get(result.waiting, "")
    leads = {
        "running": f'status(run="{run}", wait={WAIT:g})',
        "interrupted": f'resume(run="{run}")',
    }
    if kind == "answer":
        leads["waiting"] = f'answer(run="{run}", text="…")'
    elif kind:
        leads["waiting"] = f'approve(run="{run}") or reject(run="{run}", why="…")'
    return State(
        run=run,
        status=result.status,
        result=result.output,
        question=result.question,
        waits_for=kind,
        reason=result.reason,
        doing=standing.doing,
        next=leads.get(result.status, ""),
        task=standing.task,
        document=result.id,
        spent=dict(result.spent),
    )


@contextmanager
def _plainly() -> Generator[None]:
    """Errors as sentences: whoever called reads what is wrong, and never a traceback."""
    try:
        yield
    except FractalError as error:
        raise ToolError(" ".join([str(error), *getattr(error, "__notes__", ())])) from None
    except (OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
        raise ToolError(f"a fault in Fractal itself: {type(error).__name__}: {error}") from None


def make(runs: Runs) -> MCPServer:
    """The server, its tools and its resources."""
    server = MCPServer("fractal", instructions=ABOUT, version=__version__, log_level="CRITICAL")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    acts = ToolAnnotations(read_only_hint=False, destructive_hint=True)

    def tool(annotations: ToolAnnotations) -> Callable[[Any], Any]:
        def add(function: Any) -> Any:
            about = inspect.cleandoc(function.__doc__ or "")
            return server.tool(description=about, annotations=annotations)(function)

        return add

    async def settled(run: str, wait: float, ctx: Any) -> State:
        """Wait, with a note of progress for each thing that happens, and say how the run stands."""
        told: asyncio.Queue[str] = asyncio.Queue()

        async def pass_on() -> None:
            for count in itertools.count(1):
                await ctx.report_progress(count, message=await told.get())
                told.task_done()

        passing = asyncio.create_task(pass_on())
        try:
            standing = await runs.wait(run, min(max(wait, 0.0), LONGEST), told.put_nowait)
            with suppress(TimeoutError):  # the last lines as well, if the client is there
                await asyncio.wait_for(told.join(), 1)
            return state_of(standing)
        finally:
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)

    @tool(acts)
    async def run(
        task: str, ctx: Context, wait: float = WAIT, model: str | None = None, after: str | None = None
    ) -> State:
        """Start a run: a task in words, done in the server's folder. Waits so many seconds for its end.

        `model` is a model's name instead of the one that is set; `after` an earlier run that it follows up.
        """
        with _plainly():
            return await settled(await runs.start(task, model=model, after=after), wait, ctx)

    @tool(reads)
    async def status(run: str, ctx: Context, wait: float = 0) -> State:
        """How a run stands; with `wait`, after so many seconds or as soon as it stops."""
        with _plainly():
            return await settled(runs.reading.find(run), wait, ctx)

    @tool(acts)
    async def answer(run: str, text: str, ctx: Context, wait: float = WAIT) -> State:
        """Answer the question that a run waits for; it goes on."""
        with _plainly():
            return await settled(await runs.tell(run, "answer", _client(ctx), text=_said(text)), wait, ctx)

    @tool(acts)
    async def approve(run: str, ctx: Context, wait: float = WAIT) -> State:
        """Approve the plan or the step that a run waits for; ask a person before you do.

        A serious danger is approved by a person at a terminal (`fractal approve RUN`), not by a client.
        """
        with _plainly():
            return await settled(await runs.tell(run, "approve", _client(ctx)), wait, ctx)

    @tool(acts)
    async def reject(run: str, ctx: Context, why: str = "", wait: float = WAIT) -> State:
        """Reject what a run waits for: with a reason it plans anew, without one a rejected plan ends it."""
        with _plainly():
            return await settled(await runs.tell(run, "reject", _client(ctx), why=why), wait, ctx)

    @tool(acts)
    async def cancel(run: str, ctx: Context) -> State:
        """Cancel a run that is at work or waits."""
        with _plainly():
            return await settled(await runs.tell(run, "cancel", _client(ctx)), 10, ctx)

    @tool(acts)
    async def resume(run: str, ctx: Context, wait: float = WAIT) -> State:
        """Go on with a run that was interrupted, or whose documents a person has edited."""
        with _plainly():
            return await settled(await runs.resume(run), wait, ctx)

    @tool(reads)
    def read_document(name: str) -> Page:
        """A document, by its id or path; by a run's id the one at its root."""
        with _plainly():
            path = runs.reading.path(name)
            return Page(id=path.stem, path=str(path), markdown=path.read_text("utf-8", errors="replace"))

    @tool(reads)
    def list_runs(limit: int = 20) -> RunList:
        """The newest runs."""
        with _plainly():
            found = runs.reading.runs()[: max(limit, 1)]
            names = ("run", "status", "task", "created", "updated")
            return RunList(runs=[Listed(**{name: getattr(each, name) for name in names}) for each in found])

    @tool(reads)
    async def list_tools(words: str = "") -> ToolList:
        """The tools and operations of the catalogue; with `words`, those in whose line all of them stand."""
        with _plainly():
            wanted = words.lower().split()
            found = sorted((await runs.catalogue()).tools.values(), key=lambda tool: (tool.rank, tool.name))
            fits = [tool for tool in found if all(word in tool.line.lower() for word in wanted)]
            return ToolList(tools=[_entry(tool) for tool in fits])

    @tool(acts)
    async def call_tool(
        tool: str, ctx: Context, args: dict[str, Any] | None = None, wait: float = WAIT
    ) -> State:
        """Call one tool or operation of the catalogue, as a run of its own: recorded and guarded."""
        with _plainly():
            state = await settled(await runs.call(tool, args or {}), wait, ctx)
            if state.status in ("failed", "escalated"):
                raise ToolError(f"{state.reason} (run {state.run})")
            return state

    @server.resource("loop://{id}", mime_type="text/markdown", description="A document of a run, by its id.")
    def loop(id: str) -> str:
        try:
            return runs.reading.path(id).read_text("utf-8", errors="replace")
        except (FractalError, OSError) as error:
            raise ResourceNotFoundError(str(error)) from None

    return server


def _client(ctx: Any) -> Decider:
    """The client of this session, by the name that it gave itself."""
    told = ctx.session.client_params
    return Decider("client", plain_name(told.client_info.name) if told else "")


def _said(text: str) -> str:
    if not text.strip():
        raise UsageError("the answer is empty")
    return text.strip()


def _entry(tool: Tool) -> ToolEntry:
    return ToolEntry(
        name=tool.name,
        signature=tool.signature,
        description=tool.description,
        effects=list(tool.effects),
        args=dict(tool.args),
        required=list(tool.required),
        kind="guided" if tool.guided else "mcp" if tool.scheme == "mcp" else "operation",
    )


def application(server: MCPServer, host: str, token: str) -> Callable[..., Any]:
    """The ASGI application: streamable HTTP at /mcp, for those who know the token where there is one."""
    app: Any = server.streamable_http_app(host=host)
    return _Guarded(app, token) if token else app


class _Guarded:
    """Lets in who sends `Authorization: Bearer TOKEN`."""

    def __init__(self, app: Any, token: str) -> None:
        self.app = app
        self.wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self.wanted):
                headers = [(b"www-authenticate", SIGN_IN), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                body = b"a token is needed: Authorization: Bearer TOKEN\n"
                await send({"type": "http.response.body", "body": body})
                return
        await self.app(scope, receive, send)
