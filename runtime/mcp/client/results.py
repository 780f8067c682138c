"""The answer to a call as the result of a step: untrusted data as text, and pictures beside it.

What can be read is kept, whatever stands beside it; what cannot is named.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from kernel import Image, Result
from runtime.catalogue.schemas import check
from runtime.images import shown
from runtime.text.terminal import neutralise

NOTHING = "[no content]"
MOST_IMAGES = 20
"""Pictures of one answer that are kept."""
_LARGEST = 200_000
"""Characters of the schema of a result that is checked."""


def result_of(sent: Any, schema: Any = None, **evidence: Any) -> Result:
    """The answer to a call as it was sent; `schema` is what the tool says of its structured content."""
    answer = cast(dict[str, Any], sent) if isinstance(sent, dict) else {"content": sent}
    content = answer.get("content")
    if content is None and "structuredContent" not in answer:  # not an answer of this protocol
        rest = {name: each for name, each in answer.items() if name not in _HEAD}
        content = json.dumps(rest, ensure_ascii=False) if rest else []
    blocks = cast(list[Any], content) if isinstance(content, list) else [] if content is None else [content]
    pictures = [_picture(block) for block in blocks]
    pieces = [
        text for block, (line, _) in zip(blocks, pictures, strict=True) if (text := line or _as_text(block))
    ]
    structured = answer.get("structuredContent")
    if structured is not None:
        if not any(map(_readable, blocks)):
            pieces.append(_json(structured))
        if wrong := _misfit(structured, schema):
            pieces.append(f"[its structured content does not fit its own outputSchema: {wrong}]")
    failed = answer.get("isError")
    failed = failed.strip().lower() == "true" if isinstance(failed, str) else bool(failed)
    images = tuple(image for _, found in pictures for image in found)[:MOST_IMAGES]
    return Result(neutralise("\n".join(pieces)) or NOTHING, not failed, evidence, images=images)


_HEAD = ("content", "structuredContent", "isError", "resultType", "_meta")


def _picture(block: Any) -> tuple[str, tuple[Image, ...]]:
    """The line of a block with a picture, and the picture if it can be shown; nothing of another block."""
    piece = cast(dict[str, Any], block) if isinstance(block, dict) else {}
    inner = piece.get("resource")
    held = cast(dict[str, Any], inner).get("blob") if isinstance(inner, dict) else None
    data = piece.get("data") if piece.get("type") == "image" else held
    if not isinstance(data, str):
        return "", ()
    with suppress(ValueError):
        return shown(b64decode(data.partition(",")[2] if data.startswith("data:") else data)) or ("", ())
    return "", ()


def _readable(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and isinstance(block.get("text"), str))


def _misfit(structured: Any, schema: Any) -> str:
    """Why structured content does not fit; "" if it does, or nothing is said of it."""
    if not isinstance(schema, dict) or len(str(schema)) > _LARGEST:
        return ""
    return check("it", cast(Mapping[str, Any], schema))(structured)[:300]


def _as_text(block: Any) -> str:
    """One piece of content as text; binary data is replaced by its type and size."""
    if not isinstance(block, dict):
        return block if isinstance(block, str) else _json(block)
    piece = cast(dict[str, Any], block)
    kind, text = piece.get("type", "text"), piece.get("text")
    if kind == "text" and "text" in piece:
        return text if isinstance(text, str) else _json(text)
    if kind in ("image", "audio"):
        return f"[{kind}: {piece.get('mimeType') or 'unknown type'}, {_size(piece.get('data'))} bytes]"
    if kind == "resource_link":
        name = piece.get("name")
        return f"[link: {piece.get('uri')}" + (f", {name}]" if name else "]")
    inner = piece.get("resource")
    if kind == "resource" and isinstance(inner, dict):
        return _resource(cast(dict[str, Any], inner))
    return f"[unknown content: {str(kind)[:60]}]" + (f"\n{text}" if isinstance(text, str) and text else "")


def _resource(inner: Mapping[str, Any]) -> str:
    uri = inner.get("uri")
    if isinstance(text := inner.get("text"), str):
        return f"[resource: {uri}]\n{text}"
    return f"[resource: {uri}, {inner.get('mimeType') or 'unknown type'}, {_size(inner.get('blob'))} bytes]"


def _size(data: Any) -> int:
    """The decoded size of base64 text in bytes."""
    return max(len(data) * 3 // 4 - data[-2:].count("="), 0) if isinstance(data, str) else 0


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
