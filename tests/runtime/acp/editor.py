"""An editor for tests: the SDK's client, connected to a process `fractal acp`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, Implementation, RequestPermissionResponse
from lanes import PATIENCE
from warm import started

REPOSITORY = Path(__file__).parents[3]


class Editor:
    """Keeps all updates, answers requests for permission, and waits for what a test looks for."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.decide = "allow"
        self.changed = asyncio.Event()
        self.agent: Any = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.changed.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append(tool_call)
        self.changed.set()
        if self.decide == "wait":
            await asyncio.Event().wait()
        allowed = AllowedOutcome(outcome="selected", option_id=self.decide)
        denied = DeniedOutcome(outcome="cancelled")
        return RequestPermissionResponse(outcome=denied if self.decide == "cancel" else allowed)

    def on_connect(self, conn: Any) -> None:
        pass

    # ---- what it does ----

    async def open(self, folder: Path) -> str:
        return (await self.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id

    async def ask(self, session: str, *blocks: Any) -> str:
        """Send a prompt; returns its stop reason."""
        content = [acp.text_block(each) if isinstance(each, str) else each for each in blocks]
        return (await self.agent.prompt(session_id=session, prompt=content)).stop_reason

    async def refused(self, work: Any) -> str:
        """The message of the error that a request ends with."""
        try:
            answer = await work
        except acp.RequestError as error:
            return str(error)
        raise AssertionError(f"no error: {answer}")

    async def until(self, seen: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not seen():
                self.changed.clear()
                await self.changed.wait()

    # ---- what it has seen ----

    def of(self, kind: str, session: str = "") -> list[Any]:
        return [each for id, each in self.updates if each.session_update == kind and session in ("", id)]

    def said(self, session: str = "") -> str:
        return "\n".join(each.content.text for each in self.of("agent_message_chunk", session))

    def calls(self, session: str = "") -> dict[str, dict[str, Any]]:
        """The tool calls as they are after all updates."""
        calls: dict[str, dict[str, Any]] = {}
        for each in [*self.of("tool_call", session), *self.of("tool_call_update", session)]:
            calls.setdefault(each.tool_call_id, {}).update(each.model_dump(exclude_none=True))
        return calls

    def plan(self) -> list[tuple[str, str]]:
        return [(entry.content, entry.status) for entry in self.of("plan")[-1].entries]


@asynccontextmanager
async def editor(**env: str) -> AsyncIterator[Editor]:
    """An editor that has started `fractal acp`; it ends the process at the end."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "FRACTAL_TRUST")}
    kept |= {"PYTHONPATH": str(REPOSITORY), "XDG_CONFIG_HOME": "/nonexistent", "FRACTAL_SANDBOX": "off"}
    client = Editor()
    async with acp.spawn_agent_process(
        client,  # type: ignore[arg-type]
        *started([sys.executable, "-m", "runtime.cli", "acp"]),
        env={**kept, **env},
        cwd=REPOSITORY,
        transport_kwargs={"stderr": None},
    ) as (client.agent, client.process):
        about = Implementation(name="tester", version="1")
        await client.agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_info=about)
        yield client


def settings(folder: Path, *script: Any, **more: Any) -> None:
    """Let the folder have a scripted model, and these settings; JSON is YAML."""
    place = folder.parent / f"{folder.name}.json"
    place.write_text(json.dumps(script), "utf-8")
    (folder / "fractal.yaml").write_text(json.dumps({"model": f"scripted:{place}", **more}), "utf-8")
