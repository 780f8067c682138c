"""Takes the pictures of docs/page.md: serves a small workspace and lets a headless Chromium look at it.

Needs Chromium, which is a package of Debian, and playwright, which is a dependency of development.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import sync_playwright

from runtime.api import knowledge
from runtime.api.fractal import Fractal
from runtime.server.app import create_app

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "page"
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}
FOLDER = "document.querySelectorAll('.about small').forEach(each => each.textContent = '/home/me/shop')"
"""Shows another folder than the temporary one."""
HOURS = "# Hours\n\nOpen from nine to six.\n"
FACTS = (
    ("the shop opens at nine", "2025-03-01"),
    ("the shop opens at ten", "2025-04-01"),
    ("Mara runs the shop in Bern", "2025-03-01"),
    ("invoices are sent on the first of each month", "2025-03-02"),
)


def plan(task: str, *steps: Mapping[str, Any], success: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as a model would write it."""
    fields = {"context": [], "open": [], "approach": "take the text over", "confidence": "high"}
    return {"task": task, **fields, "steps": list(steps), "success": [success]}


def mirror(source: str, target: str) -> tuple[str, dict[str, Any]]:
    """A task that memory learns from, and a plan for it."""
    task = f"mirror the lines of {source} into {target}"
    read = {"tool": "read", "args": {"path": source}}
    write = {"tool": "write", "args": {"path": target, "content": "{{ steps[1].result }}"}}
    return task, plan(task, read, write, success={"file": target, "has": "."})


def work(folder: Path) -> str:
    """Let runs do some work in a folder; returns the run that waits for approval."""
    for name in ("notes", "orders", "hours"):
        (folder / f"{name}.md").write_text(HOURS if name == "hours" else f"# {name}\n\none\ntwo\n", "utf-8")
    (folder / "fractal.yaml").write_text("embedder: lexical\n", "utf-8")
    for source in ("notes", "orders", "notes", "orders", "notes"):
        run(folder, *mirror(f"{source}.md", f"{source}-copy.md"))
    task = "change the opening hours to ten"
    edit = {"tool": "edit", "args": {"path": "hours.md", "old": "from nine", "new": "from ten"}}
    waits = run(folder, task, plan(task, edit, success={"file": "hours.md", "has": "ten"}), approve=["write"])
    for text, at in FACTS:
        knowledge.remember(Fractal(folder), text, at=at)
    return waits


def run(folder: Path, task: str, answer: Mapping[str, Any], **settings: Any) -> str:
    """Do a task with a model that gives this plan."""
    script = folder.parent / "replies.json"
    script.write_text(json.dumps({"plan": answer, "check": ACCEPT}), "utf-8")
    fractal = Fractal(folder, settings={"model": f"scripted:{script}", "sandbox": "off", **settings})
    return asyncio.run(fractal.run(task)).run


def take(base: str, views: Mapping[str, str]) -> None:
    """Take a picture of each view."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-lcd-text"]
        program = shutil.which("chromium")
        page = playwright.chromium.launch(executable_path=program, args=flags).new_page(
            viewport={"width": 840, "height": 600}
        )
        for name, path in views.items():
            page.goto(base + path)
            page.evaluate(
                "document.querySelectorAll('.about small').forEach(e => e.textContent = '/home/me/shop')"
            )
            page.screenshot(path=PICTURES / f"{name}.png")


def main() -> None:
    """Make the workspace, serve it, take the pictures."""
    os.environ.update(FRACTAL_TRUST="all", XDG_CONFIG_HOME="/nonexistent", TZ="UTC")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as listening:
        folder = Path(scratch) / "shop"
        folder.mkdir()
        waits = work(folder)
        server = uvicorn.Server(uvicorn.Config(create_app(folder), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            base = f"http://127.0.0.1:{listening.getsockname()[1]}"
            take(base, {"runs": "/", "run": f"/runs/{waits}", "brain": "/brain"})
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
