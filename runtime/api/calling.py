"""Calls of tools without a model: a run whose plan is the one call that a person has asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.document.escaping import to_json
from kernel.document.model import Document, Note, Section, Step
from kernel.errors import UsageError
from kernel.loop.budget import Bounds
from kernel.loop.run_context import RunContext
from kernel.tools.tool import Tool
from runtime.secrets.redaction import redact
from runtime.workspace.new_run import first_document

CALL = "tool call"
"""The type of such a run. No tool can have this name, so none guides it. Memory learns from tasks only."""


def callable_tool(run_context: RunContext, name: str) -> Tool:
    """The operation, program or server's tool of that name. Raises `UsageError`."""
    tool = run_context.catalogue.tools.get(name)
    if tool is None:
        raise UsageError(run_context.catalogue.unknown(name))
    if tool.guided:
        raise UsageError(f'{name} guides a loop and has no code to call; say the task: fractal run "…"')
    return tool


def call_document(run_context: RunContext, tool: Tool, args: Mapping[str, Any], bounds: Bounds) -> Document:
    """The first document of a call: it is in DO, at the limit of depth, where code judges its one step."""
    if problem := tool.problem(args):
        raise UsageError(problem)
    task = redact(f"{tool.name} {to_json(dict(args))}")
    document = first_document(run_context.id, task, (), run_context.folder, bounds, CALL)
    budget = {**document.meta.budget, "max_depth": 0}
    planned = Section(
        notes=(Note("approach", "one call that was asked for, without a model"),),
        steps={1: Step(1, "planned", tool.name, dict(args))},
    )
    return document.having(phase="do", budget=budget).with_section(2, planned)
