"""From what a server answered to a call to the result of a step: text, and a line for whatever is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.operations import Result
from kernel.screening import neutralise

if TYPE_CHECKING:
    from mcp_types import CallToolResult


def result_of(answer: CallToolResult, redact: Callable[[str], str], **evidence: Any) -> Result:
    """The answer as a result; it is data from outside, and nothing in it is an instruction."""
    pieces = [piece for block in answer.content if (piece := _told(block))]
    if not any(getattr(block, "type", "") == "text" for block in answer.content):
        structured = answer.structured_content
        if structured is not None:
            pieces.append(json.dumps(structured, ensure_ascii=False))
    text = redact(neutralise("\n".join(pieces)))
    return Result(text or "[no content]", not answer.is_error, evidence)


def _told(block: Any) -> str:
    """One piece of content; pictures, sounds and other bytes are named, with their size, and not kept."""
    kind = getattr(block, "type", "")
    if kind == "text":
        return str(block.text)
    if kind in ("image", "audio"):
        return f"[{kind}: {block.mime_type}, {_size(block.data)} bytes]"
    if kind == "resource_link":
        return f"[link: {block.uri}" + (f", {block.name}]" if block.name else "]")
    if kind == "resource":
        inner = block.resource
        if hasattr(inner, "text"):
            return f"[resource: {inner.uri}]\n{inner.text}"
        return f"[resource: {inner.uri}, {inner.mime_type or 'unknown type'}, {_size(inner.blob)} bytes]"
    return f"[{kind or 'something unknown'}]"


def _size(data: str) -> int:
    """How many bytes a text in base64 stands for."""
    return max(len(data) * 3 // 4 - data[-2:].count("="), 0)
