"""Fractal as an MCP server: its tools and documents, over standard input and output or HTTP."""

from __future__ import annotations

import functools
import hmac
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from kernel.document.amounts import clamped, whole
from kernel.errors import FractalError, UsageError
from kernel.tools.tool import Tool
from runtime import __version__
from runtime.api.live_runs import WAIT, Runs, State
from runtime.api.messaging import listed, places
from runtime.secrets.redaction import redact, redact_kept, shown
from runtime.workspace.deciders import Decider, plain_name

if TYPE_CHECKING:
    from runtime.nervous.messages import Message

Reply = Literal["answer", "approve", "nudge", "reject", "veto"]
Priority = Literal["low", "normal", "high"]
LONGEST, MOST_MONTHS = 3_600.0, 240
ABOUT = """\
Fractal does a task in a folder: it plans, acts, checks the evidence, and records every step in markdown.
`run` starts a task, waits for a while and returns the run's id. If it is still `running`, call `status`.
If it is `waiting`, a person decides: call `answer`, `approve`, `nudge` or `reject`; `review` shows what
waits. `read_document` shows what was done."""


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


class Sent(BaseModel):
    """A message between worker, oversight and human."""

    id: str
    type: str
    tier: str
    sender: str
    to: str
    run: str
    in_reply_to: str
    text: str
    at: str
    queue: str = Field("", description="of a task that waits to be taken up: its place, and why")


class MessageList(BaseModel):
    """Messages, oldest first."""

    messages: list[Sent]


class Growth(BaseModel):
    """Months, oldest first; a share is null where there was nothing to count."""

    months: list[dict[str, Any]]


class ToolEntry(BaseModel):
    """A tool of the catalogue."""

    name: str
    signature: str
    description: str
    effects: list[str]
    args: dict[str, Any]
    required: list[str]
    kind: str = Field(description="operation, guided (its only argument `what` is a task in words), or mcp")


class ToolList(BaseModel):
    """The tools that `call_tool` accepts."""

    tools: list[ToolEntry]


class Review(BaseModel):
    """What waits for a decision."""

    waits: list[dict[str, Any]]


class Decisions(BaseModel):
    """The decision log."""

    decisions: list[dict[str, Any]]


class KnownTools(BaseModel):
    """What an agent knows."""

    agent: str
    known: list[str] = Field(description="the names of the tools that it knows")
    of: int = Field(description="how many tools there are")


class Page(BaseModel):
    """The text of a document."""

    id: str
    path: str
    markdown: str


def _plainly(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same without secrets, with errors as a `ToolError` with a message and no traceback."""

    @functools.wraps(work)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            answer = await work(*args, **kwargs)
            plain = isinstance(answer, Review)  # it has made its values itself
            return answer if plain else type(answer).model_validate(shown(answer.model_dump()))
        except FractalError as error:
            raise ToolError(redact(" ".join([str(error), *getattr(error, "__notes__", ())]))) from None
        except (OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
            raise ToolError(redact(f"internal error in Fractal: {type(error).__name__}: {error}")) from None

    return call


class _Server(MCPServer):
    """An argument that is null is left out: many clients send all that a tool has."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool with the arguments that are given."""
        given = {each: value for each, value in arguments.items() if value is not None}
        return await super().call_tool(name, given, context)


def make(runs: Runs) -> MCPServer:
    """Make the server with its tools and resources."""
    server = _Server("fractal", instructions=ABOUT, version=__version__, log_level="CRITICAL")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    acts = ToolAnnotations(read_only_hint=False, destructive_hint=True)

    def tool(annotations: ToolAnnotations) -> Callable[[Any], Any]:
        def add(function: Any) -> Any:
            about = inspect.cleandoc(function.__doc__ or "")
            return server.tool(description=about, annotations=annotations)(_plainly(function))

        return add

    async def settled(run: str, wait: float, ctx: Context) -> State:
        """Wait for the run, report each event as progress, and return the status."""
        count = 0
        async for line in runs.follow(run, clamped(wait, 0.0, LONGEST)):
            count += 1
            await ctx.report_progress(count, message=redact(line))
        return runs.state(run)

    @tool(acts)
    async def run(
        task: str, ctx: Context, wait: float = WAIT, model: str | None = None, after: str | None = None
    ) -> State:
        """Start a run: a task in words, done in the server's folder. Wait up to `wait` seconds for its end.

        `model` is another one that the settings name; `after` is an earlier run that this one follows up.
        """
        return await settled(await runs.start(task, model=model, after=after, trace=_trace(ctx)), wait, ctx)

    @tool(reads)
    async def status(run: str, ctx: Context, wait: float = 0) -> State:
        """The status of a run, after up to `wait` seconds or as soon as it stops."""
        return await settled(runs.reading.find(run), wait, ctx)

    @tool(acts)
    async def answer(run: str, text: str, ctx: Context, wait: float = WAIT) -> State:
        """Answer the question of a waiting run; the run continues."""
        return await settled(await runs.send(run, "answer", _client(ctx), text=_answer_text(text)), wait, ctx)

    @tool(acts)
    async def approve(run: str, ctx: Context, wait: float = WAIT) -> State:
        """Approve the plan or step that a run waits for. Ask a person first.

        Only a person at a terminal can approve a serious danger (`fractal approve RUN`).
        """
        return await settled(await runs.send(run, "approve", _client(ctx)), wait, ctx)

    @tool(acts)
    async def reject(run: str, ctx: Context, why: str = "", wait: float = WAIT) -> State:
        """Reject the plan or step. With a reason the run plans again; a plan rejected without one ends it."""
        return await settled(await runs.send(run, "reject", _client(ctx), why=why), wait, ctx)

    @tool(acts)
    async def nudge(run: str, why: str, ctx: Context, wait: float = WAIT) -> State:
        """Send the plan or step back: the run plans again, and its prompt has `why`."""
        return await settled(await runs.send(run, "nudge", _client(ctx), why=why), wait, ctx)

    @tool(acts)
    async def veto(run: str, ctx: Context, why: str = "") -> State:
        """End a run by a decision that is kept in the log. Ask a person first."""
        return await settled(await runs.send(run, "veto", _client(ctx), why=why), 10, ctx)

    @tool(reads)
    async def review() -> Review:
        """What waits for a decision, over all runs: plans, calls and questions, with dangers and diffs."""
        return Review(waits=[shown(asdict(each)) for each in runs.reading.review()])

    @tool(reads)
    async def decisions(task_type: str = "") -> Decisions:
        """What workers chose, what oversight and people said, and what came of it; oldest first."""
        return Decisions(decisions=[asdict(each) for each in runs.reading.decisions(task_type)])

    @tool(acts)
    async def cancel(run: str, ctx: Context) -> State:
        """Cancel a run that is running or waiting."""
        return await settled(await runs.send(run, "cancel", _client(ctx)), 10, ctx)

    @tool(acts)
    async def resume(run: str, ctx: Context, wait: float = WAIT) -> State:
        """Continue a run that was interrupted, or whose documents a person has edited."""
        return await settled(await runs.resume(run), wait, ctx)

    @tool(reads)
    async def read_document(name: str) -> Page:
        """A document by its id or path; a run's id means its root document."""
        path = runs.reading.path(name)
        return Page(id=path.stem, path=str(path), markdown=path.read_text("utf-8", errors="replace"))

    @tool(reads)
    async def list_runs(limit: int = 20) -> RunList:
        """The newest runs."""
        summaries = runs.reading.runs(runs.reading.workspace.run_ids()[: max(limit, 1)])
        names = ("run", "status", "task", "created", "updated")
        return RunList(runs=[Listed(**{name: getattr(each, name) for name in names}) for each in summaries])

    @tool(reads)
    async def messages(run: str = "", only_open: bool = True, limit: int = 20) -> MessageList:
        """The messages (of one run) that wait for a reply or an outcome, queued tasks last; or the newest."""
        found, most = listed(runs.reading, run=run, only_open=only_open), max(limit, 1)
        queued = places(runs.reading) if only_open else {}
        shown = found[:most] if only_open else found[-most:]
        return MessageList(messages=[_sent(each, queued.get(each.id, "")) for each in shown])

    @tool(acts)
    async def send_message(
        text: str,
        ctx: Context,
        to: str = "",
        in_reply_to: str = "",
        kind: Reply = "answer",
        priority: Priority = "normal",
    ) -> Sent:
        """Send a task to an agent (`to`) by `priority`, or reply to an open message (`in_reply_to`: its id).

        The `kind` of a reply is answer, approve, nudge (plan again with this guidance), reject, or veto
        (cancel the run). Ask a person before you approve. A beat takes it up (`fractal beat`), or `resume`.
        """
        if in_reply_to:
            return _sent(runs.reading.reply(in_reply_to, kind, text, by=_client(ctx)))
        return _sent(runs.reading.send(text, to, priority=priority, by=_client(ctx)))

    @tool(reads)
    async def growth(months: int = 12) -> Growth:
        """How the work of agents here changed by month: escalations, first tries, autonomy, new tools."""
        found = runs.reading.growth(whole(months, 1, MOST_MONTHS) or 1)
        return Growth(months=[asdict(month) for month in found])

    @tool(reads)
    async def list_tools(words: str = "") -> ToolList:
        """The tools of the catalogue; with `words`, those whose line contains all of them."""
        terms = words.lower().split()
        tools = sorted((await runs.catalogue()).tools.values(), key=lambda tool: (tool.rank, tool.name))
        fits = [tool for tool in tools if all(word in tool.line.lower() for word in terms)]
        return ToolList(tools=[_entry(tool) for tool in fits])

    @tool(acts)
    async def call_tool(
        tool: str, ctx: Context, args: dict[str, Any] | None = None, wait: float = WAIT
    ) -> State:
        """Call one tool of the catalogue as a separate run: recorded and guarded."""
        state = await settled(await runs.call(tool, args or {}, trace=_trace(ctx)), wait, ctx)
        if state.status in ("failed", "escalated"):
            raise ToolError(f"{state.reason} (run {state.run})")
        return state

    @tool(reads)
    async def known_tools(agent: str = "") -> KnownTools:
        """The tools that an agent (default: the server's own) knows, and how many there are."""
        tools = runs.reading.known(agent)
        return KnownTools(
            agent=agent or runs.reading.config.agent,
            known=[each.name for each in tools],
            of=len(runs.reading.catalogue().tools),
        )

    @tool(acts)
    async def grant(tool: str, ctx: Context, agent: str = "", why: str = "") -> KnownTools:
        """Let an agent know a tool. Ask a person first. What a person has revoked, only a person grants."""
        runs.reading.grant(tool, agent, why=why, by=_client(ctx))
        return await known_tools(agent)

    @tool(acts)
    async def revoke(tool: str, ctx: Context, agent: str = "", why: str = "") -> KnownTools:
        """Take a tool from an agent."""
        runs.reading.revoke(tool, agent, why=why, by=_client(ctx))
        return await known_tools(agent)

    @server.resource("loop://{id}", mime_type="text/markdown", description="A document of a run, by its id.")
    def loop(id: str) -> str:
        try:
            return redact_kept(runs.reading.path(id).read_text("utf-8", errors="replace"))
        except (FractalError, OSError) as error:
            raise ResourceNotFoundError(redact(str(error))) from None

    return server


def _client(ctx: Any) -> Decider:
    """The client of this session, by the name that it reports."""
    params = ctx.session.client_params
    return Decider("client", plain_name(params.client_info.name) if params else "")


def _trace(ctx: Context) -> str:
    """The `traceparent` in the request's `_meta`; "" if there is none."""
    return str((ctx.request_context.meta or {}).get("traceparent", ""))


def _answer_text(text: str) -> str:
    if not text.strip():
        raise UsageError("the answer is empty")
    return text.strip()


def _sent(message: Message, queue: str = "") -> Sent:
    return Sent.model_validate({**dict(message), "queue": queue})


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
    """The ASGI application: streamable HTTP at /mcp; a token, if set, is required."""
    from starlette.responses import PlainTextResponse

    app = server.streamable_http_app(host=host)
    expected = f"Bearer {token}".encode()
    refusal = PlainTextResponse(
        "a token is required: Authorization: Bearer TOKEN\n",
        status_code=401,
        headers={"www-authenticate": 'Bearer realm="fractal"'},
    )

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        received = dict(scope.get("headers", ())).get(b"authorization", b"")
        refused = scope["type"] == "http" and not hmac.compare_digest(received, expected)
        await (refusal if refused else app)(scope, receive, send)

    return guarded if token else app
