"""What a server answers, as the SDK accepts it, with the answer as it was sent beside it.

The SDK refuses a whole page of tools, or a whole result, for one odd part of it. So its models get the least
that they need. `as_sent` has the rest: what is made of it is decided by `listing.py` and `results.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, cast

SENT = "fractal/as-sent"
"""The member of `_meta` with an answer as it was sent."""
_ENDS = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
"""What the newest protocol requires of a result beside what is read here."""
_FAULT = -32603
"""The code of an internal error."""


@asynccontextmanager
async def mended(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """The streams of a transport, whose answers to `tools/list` and `tools/call` the SDK accepts."""
    async with transport as (read, write):
        asked: dict[str, str] = {}
        yield _Reading(read, asked), _Writing(write, asked)


def as_sent(result: Any) -> Any:
    """The answer as the server sent it, from what the SDK made of it."""
    return (result.meta or {}).get(SENT)


def message_of(line: bytes) -> Any:
    """The message in a line, as the SDK has it; None if there is none.

    It may be an answer that is none of the protocol, such as one whose result is null.
    """
    import mcp_types

    answer = _answer_in(line)
    with suppress(ValueError):
        return mcp_types.jsonrpc_message_adapter.validate_json(
            json.dumps(answer) if answer else line, by_name=False
        )
    return None


def mend_body(response: Any, package: Any) -> None:
    """Let the SDK read only messages of the protocol: from an answer in one piece, or from events."""
    stream = response.stream
    streamed = response.headers.get("content-type", "").startswith("text/event-stream")

    class Mended(package.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            pending: list[bytes] = []
            async for piece in stream:
                whole, end, rest = piece.rpartition(b"\n") if streamed else (b"", b"", piece)
                if end:
                    yield b"".join(_usable(each) + b"\n" for each in b"".join([*pending, whole]).split(b"\n"))
                    pending.clear()
                pending.append(rest)
            yield _usable(b"".join(pending))

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Mended()


def _usable(line: bytes) -> bytes:
    """A body, or a line of events, with an answer that the SDK accepts."""
    head, brace, rest = line.partition(b"{")
    answer = _answer_in(brace + rest) if head.strip() in (b"", b"data:") else None
    return line if answer is None else head + json.dumps(answer).encode()


def _answer_in(line: bytes) -> dict[str, Any] | None:
    """What an answer that is no message of the protocol means; None for a message, and for no answer."""
    import mcp_types

    with suppress(ValueError):
        mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        return None
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not isinstance(read.get("id"), int | str):
        return None
    answer = cast(dict[str, Any], read)
    head = {"jsonrpc": "2.0", "id": answer["id"]}
    if (error := answer.get("error")) is not None:
        said: Any = (
            (cast(dict[str, Any], error).get("message") or error) if isinstance(error, dict) else error
        )
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return {**head, "error": {"code": _FAULT, "message": text}}
    if "result" not in answer:
        return None
    result = answer["result"]
    return {**head, "result": result if isinstance(result, dict) else {"_meta": {SENT: result}}}


def _page(sent: Any) -> dict[str, Any]:
    """A page of tools: of each usable one the name, and what the SDK looks for in its schema."""
    page = cast(dict[str, Any], sent) if isinstance(sent, dict) else {}
    listed = page.get("tools")
    tools = cast(list[Any], listed) if isinstance(listed, list) else []
    named = [each for each in tools if isinstance(each, dict) and isinstance(each.get("name"), str)]
    plain = [{"name": each["name"], "inputSchema": _schema(each.get("inputSchema"))} for each in named]
    return {**_ENDS, "tools": plain, "_meta": {SENT: sent}}


def _schema(sent: Any) -> dict[str, Any]:
    properties: Any = cast(dict[str, Any], sent).get("properties") if isinstance(sent, dict) else None
    members = cast(dict[str, Any], properties).items() if isinstance(properties, dict) else ()
    usable = {name: each for name, each in members if isinstance(each, dict)}
    return {"type": "object", "properties": usable}


def _result(sent: Any) -> dict[str, Any]:
    """The result of a call. One that asks for more is left to the SDK, which refuses what it asks for."""
    if isinstance(sent, dict) and sent.get("resultType", "complete") != "complete":
        return cast(dict[str, Any], sent)
    return {**_ENDS, "content": [], "_meta": {SENT: sent}}


_MENDED: Mapping[str, Callable[[Any], dict[str, Any]]] = {"tools/list": _page, "tools/call": _result}


class _Stream:
    """A stream of a transport; what is not said here is its own."""

    def __init__(self, inner: Any, asked: dict[str, str]) -> None:
        self._inner, self._asked = inner, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> _Stream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._inner.__aexit__(*error)


class _Writing(_Stream):
    async def send(self, item: Any) -> None:
        """Send a message, and note what is asked for in a request."""
        message = item.message
        if getattr(message, "method", "") in _MENDED and hasattr(message, "id"):
            self._asked[str(message.id)] = message.method
        await self._inner.send(item)


class _Reading(_Stream):
    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> Any:
        return self._mended(await self._inner.__anext__())

    async def receive(self) -> Any:
        """The next message."""
        return self._mended(await self._inner.receive())

    def _mended(self, item: Any) -> Any:
        message: Any = getattr(item, "message", None)
        method = "" if hasattr(message, "method") else self._asked.pop(str(getattr(message, "id", "")), "")
        if method and hasattr(message, "result"):
            sent = message.result
            alone = set(sent) == {"_meta"} and SENT in (sent["_meta"] or {})  # what `_answer_in` has wrapped
            message.result = _MENDED[method](sent["_meta"][SENT] if alone else sent)
        return item
