"""How fast a model is here: two short questions, and what it takes in memory."""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass

from kernel.asking.responder import Ask, Reply, ReplyForm, Responder
from kernel.document.model import Document, Meta
from kernel.errors import ProviderError

LONG_TEXT = "The quick brown fox jumps over the lazy dog near the old mill by the river. " * 10
"""A prompt of about 170 tokens, whose reading takes much longer than a reply of one token."""
REPLY_TOKENS = 40


@dataclass(frozen=True)
class Speed:
    """Seconds to the first reply, tokens per second, and megabytes of this process at its peak."""

    first_seconds: float
    prompt_per_second: float
    reply_per_second: float
    megabytes: int


async def ping(responder: Responder) -> float:
    """Seconds of one ask for one token. Raises `ProviderError` and `ConfigurationError`."""
    return (await _timed(responder, "Reply with one word: ready", 1, 0))[0]


async def speed(responder: Responder) -> Speed:
    """Ask a model three times. Raises `ProviderError` and `ConfigurationError`."""
    first, _ = await _timed(responder, "Reply with one word: ready", 4, 0)
    read_seconds, read = await _timed(responder, f"{LONG_TEXT}\nReply with one word: ready", 1, 1)
    write_seconds, written = await _timed(
        responder, "Count from 1 to 40, separated by commas.", REPLY_TOKENS, 2
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Speed(
        round(first, 2),
        round(read.usage.prompt_tokens / max(read_seconds, 1e-6), 1),
        round(written.usage.completion_tokens / max(write_seconds, 1e-6), 1),
        memory,
    )


async def _timed(responder: Responder, text: str, tokens: int, turn: int) -> tuple[float, Reply]:
    document = Document(Meta("system-speed", "speed"))
    form = ReplyForm("text")
    ask = Ask("speed", document.meta.id, 1, "check", 0, turn, "", text, {}, "", tokens, document, form=form)
    begun = time.monotonic()
    reply = await asyncio.ensure_future(responder.answer(ask))
    if not isinstance(reply, Reply):
        raise ProviderError(f"{responder.name}: {reply.question}")
    return time.monotonic() - begun, reply
