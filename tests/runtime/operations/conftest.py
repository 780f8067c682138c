"""A folder to work in, and calls made the way the kernel makes them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, file_hash
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """20,000 cases take longer than the limit for one test."""
    for item in items:
        if NIGHT and "against_references" in item.nodeid:
            item.add_marker(pytest.mark.timeout(0))


def _ended(result: Any) -> Any:
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@dataclass(frozen=True)
class Workbench:
    """A folder with files, and operations run in it."""

    folder: Path
    settings: Mapping[str, Any]
    timeout: float = 20.0
    sandbox: str = "off"

    @property
    def context(self) -> OperationContext:
        own = tuple(self.folder / name for name in ("state", "system", "fractal.yaml"))
        return OperationContext(self.folder, Sandbox(self.sandbox), self.settings, self.timeout, own)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def text(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode()

    def names(self) -> list[str]:
        """Every file there is, hidden ones too: nothing may be left behind."""
        return sorted(p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file())

    def call(self, operation: Callable[..., Any], **args: Any) -> Result:
        """Prepare, act, and compare what was announced with what is on the disk."""
        prepare = operation.prepare  # type: ignore[attr-defined]
        touches = prepare(self.context, **args) if prepare else ()
        result = _ended(operation(self.context, **args))
        made = result if isinstance(result, Result) else Result(result)
        for touch in touches:
            assert touch.after is None or file_hash(touch.path) == touch.after, touch
        return made

    def fails(self, operation: Callable[..., Any], **args: Any) -> str:
        """The message of a call that must fail, and must change nothing."""
        before = {name: file_hash(self.folder / name) for name in self.names()}
        with pytest.raises(OperationFailed) as caught:
            _ended(operation(self.context, **args))
        assert {name: file_hash(self.folder / name) for name in self.names()} == before
        return str(caught.value)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Workbench(folder, {})
