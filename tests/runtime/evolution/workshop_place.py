"""A workspace whose system changes: tools written into it, and the parts that manage them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from in_process import Ran, in_process

from kernel.events import Event
from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal
from runtime.catalogue.catalogue import Catalogue
from runtime.evolution.journal import Entry, Journal
from runtime.evolution.samples import ToolRecords
from runtime.sandbox.sandbox import Sandbox

boxed = pytest.mark.skipif(
    Sandbox("bwrap").available() is not None, reason="bubblewrap does not work here: no sandboxed sample"
)
SHOUT = "import json, sys\nprint(json.load(sys.stdin)['text'].upper())\n"


def pattern(name: str, *, body: str = "Louder.", **fields: Any) -> str:
    """A tool's markdown; by default of a program that shouts."""
    given: dict[str, Any] = {
        "name": name,
        "description": "say it in capitals",
        "args": {"text": {"type": "string"}},
        "required": ["text"],
        "run": "command: ./tool.py",
        "effects": [],
        "idempotent": True,
        "sample": {"task": "shout hello", "args": {"text": "hello"}, "shows": "^HELLO$"},
        "status": "active",
        "origin": "designed",
    }
    kept = {key: value for key, value in (given | fields).items() if value is not None}
    return f"---\n{yaml.safe_dump(kept, sort_keys=False)}---\n# {name}\n\n## PLAN\n\n{body}\n"


@dataclass
class Place:
    """A folder that is used as a workspace."""

    folder: Path
    events: list[Event] = field(default_factory=list)

    @property
    def system(self) -> Path:
        return self.folder / ".fractal" / "system"

    @property
    def state(self) -> Path:
        return self.folder / ".fractal" / "state" / "system"

    def fractal(self, **settings: Any) -> Fractal:
        settings = {"sandbox": "off", "model": "reflex"} | settings
        return Fractal(self.folder, settings=settings, on_event=self.events.append)

    @property
    def journal(self) -> Journal:
        return self.fractal().workshop.journal

    @property
    def records(self) -> ToolRecords:
        return self.fractal().workshop.records

    @property
    def entries(self) -> list[Entry]:
        return self.journal.entries()

    @property
    def messages(self) -> list[str]:
        """Messages of the `system_changed` events."""
        return [str(each.data["message"]) for each in self.events if each.kind == "system_changed"]

    def catalogue(self) -> Catalogue:
        return self.fractal().catalogue()

    def tool(self, name: str) -> Tool:
        catalogue = self.catalogue()
        return catalogue.tools.get(name) or catalogue.idle[name]

    def put(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Write a file of the system, as a person would."""
        path = self.system / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(mode)
        return path

    def shout(self, name: str = "shout", program: str = SHOUT, **fields: Any) -> None:
        """Put a program that shouts into the system."""
        self.put(f"tools/{name}/tool.py", program)
        self.put(f"tools/{name}/pattern.md", pattern(name, **fields))

    def files(self) -> dict[str, str]:
        """The system's files with their content."""
        return {
            path.relative_to(self.system).as_posix(): path.read_text("utf-8")
            for path in sorted(self.system.rglob("*"))
            if path.is_file()
        }

    def kinds(self) -> list[tuple[str, str]]:
        return [(entry.kind, entry.unit) for entry in self.entries]

    def command(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        """Call `fractal` without the keys and models of the user who runs the tests."""
        names = ("PATH", "HOME", "LANG", "FRACTAL_TRUST")
        inherited = {key: os.environ[key] for key in names if key in os.environ}
        overrides = {
            "XDG_CONFIG_HOME": "/nonexistent",
            "FRACTAL_SANDBOX": "off",
            "NO_COLOR": "1",
            **(env or {}),
        }
        return in_process(self.folder, words, inherited | overrides)

    def crashed(self) -> list[Path]:
        """Half-written files that a crashed process has left."""
        return [path for path in (self.folder / ".fractal").rglob(".*.tmp") if os.path.lexists(path)]
