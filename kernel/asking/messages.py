"""A conversation with a model: the messages that an ask sends, as text, and how long they are.

The form is that of OpenAI's chat messages:

    {"role": "system", "content": "…"}
    {"role": "user", "content": "…"}
    {"role": "assistant", "content": "…", "tool_calls": [{"id": "c1", "type": "function", "function": {…}}]}
    {"role": "tool", "tool_call_id": "c1", "content": "…"}

`function` has `name`, and `arguments` as JSON text. The content beside calls may be None. A user's message
may have `images` beside its content: {"kind": "image/png", "data": BASE64} each, for a model that sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel.document.escaping import to_json

if TYPE_CHECKING:
    from kernel.asking.responder import Ask

Message = Mapping[str, Any]
IMAGE_TOKENS, IMAGE_BYTES = 1_600, 250
"""The tokens of a picture, and the bytes of base64 that count as one: requests are bounded in bytes, too."""


def sent(ask: Ask) -> Sequence[Message]:
    """The messages of an ask: its conversation, else its prompt as two messages."""
    prompt = ({"role": "system", "content": ask.system}, {"role": "user", "content": ask.user})
    return ask.messages or prompt


def calls_of(message: Message) -> list[tuple[str, str, str]]:
    """The calls of an assistant's message: id, name, and arguments as JSON text."""
    called = message.get("tool_calls") or ()
    return [(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in called]


def text_of(message: Message) -> str:
    """A message as text: its content, then a line for each call."""
    lines = [f"{name} {arguments}" for _, name, arguments in calls_of(message)]
    return "\n".join(filter(None, [message.get("content"), *lines]))


def tokens_of(message: Message, count: Callable[[str], int]) -> int:
    """The tokens of a message with its pictures, by this counter."""
    sizes = (len(image["data"]) // IMAGE_BYTES for image in message.get("images") or ())
    return count(text_of(message)) + sum(max(IMAGE_TOKENS, size) for size in sizes)


def prompt_text(ask: Ask) -> str:
    """All that an ask says to a model, as one text."""
    return "\n".join(map(text_of, sent(ask)))


def prompt_tokens(ask: Ask, count: Callable[[str], int]) -> int:
    """The tokens of what an ask sends, by this counter: its messages, and the tools that it declares."""
    tools = count(to_json(list(ask.tools))) if ask.tools else 0
    return sum(tokens_of(each, count) for each in sent(ask)) + tools


def fenced(text: str) -> str:
    """A text in a fence that nothing inside it ends."""
    ticks = "`" * (max(map(len, re.findall("`{3,}", text)), default=2) + 1)
    return f"{ticks}\n{text}\n{ticks}"
