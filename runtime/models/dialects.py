"""What single providers want of a conversation beside OpenAI's form. Each change is the same in a longer one.

- Anthropic caches a prompt only up to a mark. Other providers cache what requests begin with by themselves.
- Mistral's models want ids of nine letters and digits, and a reply between a result and the user's next word.
- Some models, such as Gemma, take no message of the system.
- Gemini 3 wants a signature on the first call of a reply; litellm sends equal calls to Gemini only once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from kernel.asking.messages import Message, calls_of
from runtime.models.tool_calls import object_of

Messages = list[dict[str, Any]]
MARK = {"type": "ephemeral"}
BRIDGE = "(results received)"
"""The reply that stands between a result and the user's next word."""
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini's documentation provides for calls whose signature is not known."""
_MISTRAL = re.compile(r"mistral|mixtral|ministral|codestral|devstral|magistral|pixtral", re.IGNORECASE)
_OLD_GEMINI = re.compile(r"gemini-(?:1|2)\b", re.IGNORECASE)


def new_from(messages: Sequence[Message]) -> int:
    """The index of the first message that no earlier ask has sent: what follows the model's last one."""
    said = [at for at, each in enumerate(messages) if each["role"] == "assistant"]
    return said[-1] + 1 if said else 0


def native(messages: Sequence[Message], model: str, gateway: str) -> Messages:
    """A conversation with native calls, as a model and the server or library on the way to it want it."""
    if gateway == "gemini" and not _OLD_GEMINI.search(model):
        return signed(messages)
    if gateway == "litellm" and "gemini" in model:
        return once(messages)
    return mistral(messages) if _MISTRAL.search(model) else list(map(dict, messages))


def mistral(messages: Sequence[Message]) -> Messages:
    """The messages with short ids, and with a reply before a word of the user that follows a result."""
    written: Messages = []
    for message in messages:
        if message["role"] == "user" and written and written[-1]["role"] == "tool":
            written.append({"role": "assistant", "content": BRIDGE})
        written.append(_short(message))
    return written


def without_system(messages: Sequence[Message]) -> Messages:
    """The messages with what the system says at the beginning of the user's first one."""
    said = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
    written = [dict(each) for each in messages if each["role"] != "system"]
    if said and written and written[0]["role"] == "user":
        written[0]["content"] = f"{said}\n\n{written[0]['content']}"
        return written
    return [{"role": "user", "content": said}, *written] if said else written


def signed(messages: Sequence[Message]) -> Messages:
    """The messages with a signature on the first call of each reply."""
    written = [dict(each) for each in messages]
    for message in written:
        if called := message.get("tool_calls"):
            message["tool_calls"] = [{**called[0], "extra_content": UNSIGNED}, *called[1:]]
    return written


def once(messages: Sequence[Message]) -> Messages:
    """The messages with equal calls of one reply as one call, whose result has those of all of them."""
    written: Messages = []
    same: dict[str, str] = {}
    results: dict[str, dict[str, Any]] = {}
    for message in map(dict, messages):
        if called := message.get("tool_calls"):
            first: dict[str, str] = {}
            made = [(id, f"{name} {object_of(arguments)!r}") for id, name, arguments in calls_of(message)]
            same = {id: first.setdefault(said, id) for id, said in made}
            message["tool_calls"] = [each for each in called if same[each["id"]] == each["id"]]
        elif message["role"] == "tool":
            own = str(message["tool_call_id"])
            id = same.get(own, own)
            if before := results.get(id) if id != own else None:
                before["content"] += f"\n\nThe same call again:\n{message['content']}"
                continue
            results[id] = message
        written.append(message)
    return written


def for_marks(model: str) -> bool:
    """Whether a model's provider caches a prompt only up to a mark, wherever it runs."""
    return "claude" in model or model.startswith("anthropic/")


def marked(messages: Sequence[Message], *, in_results: bool = False) -> Messages:
    """The messages with three marks: on the system's, on the end of the request before, and on the last.

    `in_results`: a result has its mark in its text, as OpenRouter wants it, and not beside its content.

    That request's end is marked again because a lookup goes back over 20 blocks only. A mark changes no text.
    """
    before = new_from(messages) - 2  # its reply is the model's last message
    places = {0, before, len(messages) - 1}
    return [_marked(each, in_results) if at in places else dict(each) for at, each in enumerate(messages)]


def _marked(message: Message, in_results: bool) -> dict[str, Any]:
    """A message with a mark in a block of its text; a result can have it beside its content."""
    if message["role"] == "tool" and not in_results:
        return {**message, "cache_control": MARK}
    content = message["content"]
    first, *more = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return {**message, "content": [{**first, "cache_control": MARK}, *more]}  # pictures follow the text


def _short(message: Message) -> dict[str, Any]:
    written = dict(message)
    if called := message.get("tool_calls"):
        written["tool_calls"] = [{**each, "id": _nine(each["id"])} for each in called]
    if "tool_call_id" in message:
        written["tool_call_id"] = _nine(message["tool_call_id"])
    return written


def _nine(id: str) -> str:
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
