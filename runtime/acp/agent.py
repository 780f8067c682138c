"""The methods of the Agent Client Protocol. What a session was is read from the documents of its runs."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import acp
from acp import schema
from acp.interfaces import Client

from kernel.document.model import Meta, root_id
from kernel.document.parser import read_head
from kernel.errors import DocumentError, FractalError, UsageError
from runtime import __version__
from runtime.acp.session import MODES, Session
from runtime.api.fractal import shipped_system
from runtime.secrets.redaction import redact
from runtime.workspace.deciders import Decider, plain_name
from runtime.workspace.workspace import Workspace
from runtime.workspace.worktrees import folder_of_user

_INVALID, _INTERNAL = -32602, -32603
"""Error codes of JSON-RPC."""


def _plainly(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same, with an error of Fractal as one of the protocol, whose message is for people."""

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except FractalError as error:
            code = _INVALID if isinstance(error, UsageError) else _INTERNAL
            raise acp.RequestError(code, redact(str(error))) from None

    return call


class FractalAgent:
    """The methods of the protocol, for the SDK's router. Belongs to one event loop."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.sessions: dict[str, Session] = {}
        self.by = Decider("page")

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to the editor."""
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_info: schema.Implementation | None = None, **_: Any
    ) -> schema.InitializeResponse:
        """Offer the version of the SDK's schema, and what prompts may contain."""
        self.by = Decider("page", plain_name(client_info.name) if client_info else "")
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            agent_info=schema.Implementation(name="fractal", title="Fractal", version=__version__),
        )

    @_plainly
    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """Open a conversation about a folder. Its record begins with its first run."""
        session = Session(secrets.token_hex(8), cwd, self.settings, self.client, self.by)
        self.sessions[session.id] = session
        return schema.NewSessionResponse(
            session_id=session.id, modes=session.modes, config_options=session.options
        )

    @_plainly
    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Show the runs of an earlier session; the next prompt continues it."""
        if session_id in self.sessions:
            self.sessions[session_id].refuse_busy()
        session = Session(session_id, cwd, self.settings, self.client, self.by)
        runs = [meta.run for meta, _ in _threads(session.fractal.workspace).get(session_id, [])]
        if not runs:
            raise UsageError(f"there is no session {session_id} in {session.fractal.workspace.runs}")
        self.sessions[session_id] = session
        await session.load(runs)
        return schema.LoadSessionResponse(modes=session.modes, config_options=session.options)

    @_plainly
    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        """The sessions of a folder, the one with the newest run first."""
        workspace = Workspace.find(Path(cwd or "."), shipped_system())
        sessions = [
            schema.SessionInfo(
                session_id=id, cwd=str(workspace.folder), title=runs[0][1][:80], updated_at=meta.updated
            )
            for id, runs in _threads(workspace).items()
            if folder_of_user(meta := runs[-1][0]) == workspace.folder
        ]
        sessions.sort(key=lambda each: each.updated_at or "", reverse=True)
        return schema.ListSessionsResponse(sessions=sessions)

    @_plainly
    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        """Carry out a prompt."""
        return schema.PromptResponse(stop_reason=await self._find(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Interrupt the prompt of a session."""
        if session := self.sessions.get(session_id):
            session.cancel()

    @_plainly
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        """Set the mode for the next prompt."""
        if mode_id not in MODES:
            raise UsageError(f"there is no mode {mode_id}; the modes are {', '.join(MODES)}")
        self._find(session_id).mode = mode_id
        return schema.SetSessionModeResponse()

    @_plainly
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose the model for the next prompt."""
        session = self._find(session_id)
        session.choose(config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=session.options)

    def _find(self, session_id: str) -> Session:
        if session_id not in self.sessions:
            raise UsageError(f"the session {session_id} is not open here; load it first")
        return self.sessions[session_id]


def _threads(workspace: Workspace) -> dict[str, list[tuple[Meta, str]]]:
    """META and task of the runs of each conversation, oldest first."""
    found: dict[str, list[tuple[Meta, str]]] = {}
    for run in reversed(workspace.run_ids()):
        with suppress(DocumentError):
            meta, task = read_head(workspace.runs / run / f"{root_id(run)}.md")
            if thread := meta.extra.get("thread"):
                found.setdefault(str(thread), []).append((meta, task))
    return found
