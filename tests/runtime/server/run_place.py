"""A workspace whose runs a server serves: its settings, scripted models, and the events of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playing import ACCEPT, plan

from runtime.server.client import Client
from runtime.server.run_schemas import Seen

TOKEN = "a-token-of-the-tests"
WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "new\n"}}
SECRET = {"tool": "read", "args": {"path": ".env"}}
"""A call that is a serious danger."""


def settings(folder: Path, **values: Any) -> None:
    """The settings of the workspace, in which clients may choose the model of `script`."""
    agents = {"scripted": {"model": f"scripted:{folder / 'script.json'}"}}
    own = {"sandbox": "off", "agents": agents, **values}
    (folder / "fractal.yaml").write_text(json.dumps(own), "utf-8")


def script(folder: Path, *steps: Mapping[str, Any], **more: Any) -> str:
    """A scripted model that plans these steps and accepts; returns its name."""
    entries = [
        {"phase": "fused", "reply": plan(*steps, **more)},
        {"phase": "plan", "reply": plan(*steps, **more)},
        {"phase": "understand", "reply": {"task": "as it stands", "context": [], "open": []}},
        {"phase": "check", "reply": ACCEPT},
    ]
    path = folder / "script.json"
    path.write_text(json.dumps(entries), "utf-8")
    return f"scripted:{path}"


def ended(runs: Client, seen: Seen, after: str = "", until: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The events of a run since a response, or an id, up to an id (default: until it stops)."""
    found: list[tuple[str, dict[str, Any]]] = []
    for id, event in runs.events(seen.run, after or seen.after):
        found.append((id, event))
        if id == until or (not until and event["kind"] == "run_finished"):
            return found
    raise AssertionError(f"the stream ended: {found}")
