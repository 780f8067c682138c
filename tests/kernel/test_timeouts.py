"""Timeouts and cancellation of calls and runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel import disk
from kernel.asking.responder import Ask, Ladder
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.operations.running import RUNNERS, carry_out
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

late, ended = threading.Event(), threading.Event()
"""The limit of a call is over; its operation has ended all the same."""


def slow_write(ctx: OperationContext, path: str) -> Result:
    late.wait()
    try:
        disk.put(ctx.folder / path, b"late")
    finally:
        ended.set()
    return Result("written")


def slow_place(ctx: OperationContext, path: str) -> Result:
    late.wait()
    try:
        with disk.committing():
            (ctx.folder / path).mkdir()
    finally:
        ended.set()
    return Result("made")


def own_timeout(ctx: OperationContext, path: str) -> Result:
    raise TimeoutError("the server did not answer")


async def own_timeout_later(ctx: OperationContext, path: str) -> Result:
    await asyncio.sleep(0)
    raise TimeoutError("the server did not answer")


def call(folder: Path, function: Callable[..., Any], timeout: float) -> Result:
    tool = Tool("slow", folder / "slow.md", "d", run="python: kernel:slow", timeout=timeout)
    vars(tool)["function"] = function  # the function that `run` would resolve to

    async def executed_and_waited() -> Result:
        result = await carry_out(
            OperationContext(folder, Sandbox("off")), tool, {"path": "late.txt"}, RUNNERS
        )
        late.set()
        return result

    return asyncio.run(executed_and_waited())


@pytest.mark.parametrize("function", [slow_write, slow_place])
def test_stopped_call_changes_no_file_afterwards(tmp_path: Path, function: Callable[..., Any]) -> None:
    late.clear()
    ended.clear()
    result = call(tmp_path, function, 0.1)
    ended.wait()
    assert not result.ok
    assert "took longer than 0.1 s and was stopped" in result.text
    assert list(tmp_path.iterdir()) == []
    assert call(tmp_path, function, 10).ok


@pytest.mark.parametrize("function", [own_timeout, own_timeout_later])
def test_timeout_raised_by_an_operation_is_reported_as_its_error(
    tmp_path: Path, function: Callable[..., Any]
) -> None:
    result = call(tmp_path, function, 10)
    assert not result.ok
    assert result.text == "slow failed: TimeoutError: the server did not answer"


def test_cancelled_run_is_interrupted_and_resumable(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Slow(Scripted):
        async def answer(self, ask: Ask) -> Any:
            asked.set()
            await asyncio.Event().wait()

    def fractal() -> Fractal:
        return Fractal(tmp_path, settings={"sandbox": "off"}, ladder=Ladder((Slow(lambda ask: ""),)))

    async def late() -> None:
        running = asyncio.create_task(fractal().run("do the work"))
        await asked.wait()
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(late())
    (run,) = fractal().runs()
    assert run.status == "interrupted"
