"""Answers that are changed at random become a reply, a clear error or another attempt, and are charged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lanes import NIGHT, chance
from llm_server import Answer, LlmServer
from test_answers import BYTES, MESSAGES, PRICE, READ, SAID, delta, sse, whole

from kernel.asking.responder import Ask, Reply
from kernel.errors import ConfigurationError, ProviderError
from runtime.models.answers import Reader
from runtime.models.failures import Failure, OutOfThought
from runtime.models.openai_client import OpenAI

COUNT = 20_000 if NIGHT else 400
"""Answers that are read."""
OVER_HTTP = 20 if NIGHT else 5
"""One of so many goes through a server, too."""
OF_OUR_OWN = (
    "TypeError",
    "KeyError",
    "JSONDecodeError",
    "AttributeError",
    "IndexError",
    "Expecting",
    "cannot be read",
)
"""What no message may say: that is a fault of our own reading."""
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1e308, 10**30, "", "x", "\ud83d", "stop", "length", "error", [], {}, [[]]),
    *([None], {"": None}, {"text": 1}, [{"index": None}], "data: {}", "[DONE]", "{", "<think>", "</think>"),
)


def changed(random: random.Random, value: Any) -> Any:
    """A value with a part of it replaced, removed, doubled or put somewhere else."""
    if random.random() < 0.15:
        return random.choice(VALUES)
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        new = dict(value)
        how = random.random()
        if how < 0.1:
            del new[key]
        elif how < 0.2:
            new[random.choice(("error", "delta", "message", "usage", "choices", "content"))] = new.pop(key)
        else:
            new[key] = changed(random, value[key])
        return new
    if isinstance(value, list) and value:
        at = random.randrange(len(value))
        if random.random() < 0.2:
            return [*value, *value]
        return [*value[:at], changed(random, value[at]), *value[at + 1 :]]
    return random.choice(VALUES)


def bent(random: random.Random, raw: bytes) -> bytes:
    """Bytes with some of them removed, replaced or repeated."""
    for _ in range(random.randrange(3)):
        at, size = random.randrange(len(raw) + 1), random.randrange(12)
        piece = random.choice(
            (b"", b"\n", b"\r", b"\n\n", b"data: ", b"\x00", b"\xff", b'"', b"}", b"[DONE]", raw[:9])
        )
        raw = raw[:at] + piece + raw[at + size :]
    return raw


def answers(random: random.Random) -> Iterator[bytes]:
    """Answers of the tables and others, each of them changed."""
    messages = [message for message, _ in MESSAGES.values()]
    kept = [raw for raw, _ in BYTES.values() if len(raw) < 10_000]
    for _ in range(COUNT):
        message = random.choice(messages)
        how = random.random()
        if how < 0.3:
            raw = random.choice(kept)
        elif how < 0.6:
            raw = json.dumps(changed(random, json.loads(whole(message)))).encode("utf-8", "surrogatepass")
        else:
            events = [
                delta({}),
                delta(message),
                delta({}, "stop"),
                {"choices": [], "usage": {"prompt_tokens": 9}},
            ]
            raw = sse(*(json.dumps(changed(random, each)) for each in events), done=random.random() < 0.8)
        yield bent(random, raw) if random.random() < 0.6 else raw


def test_no_answer_breaks_its_reader_and_pieces_change_nothing():
    numbers = chance(20260301)
    for raw in answers(numbers):
        at_once, in_pieces = Reader(), Reader()
        at_once.take(raw)
        for at in range(0, len(raw), size := numbers.randrange(1, 9)):
            in_pieces.take(raw[at : at + size])
        assert at_once.end() == in_pieces.end(), raw


@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
async def test_a_changed_answer_is_a_reply_or_a_clear_error_and_charged(
    llm_server: LlmServer, make_ask: Callable[..., Ask], native: bool
):
    ask = make_ask("turn", system="", user="", tools=(READ,), messages=SAID, max_tokens=2000)
    model = OpenAI("openai/m", native=native, api_base=llm_server.url, retries=0, price=PRICE)
    for number, raw in enumerate(answers(chance(20260302))):
        model.refused.clear()
        model.limit = "max_tokens"
        try:
            if number % OVER_HTTP:
                reader = Reader()
                reader.take(raw)
                reply = model.reply_of(ask, reader.end())
            else:
                model.patience = 300.0
                llm_server.always(lambda body, raw=raw: Answer(raw=raw))
                reply = await model.answer(ask)
        except (ProviderError, ConfigurationError) as error:
            assert str(error).strip() and not any(word in str(error) for word in OF_OUR_OWN), raw
            used = getattr(error, "usage", None)
            assert used or b"error" in raw or not says_something(raw), raw
        except OutOfThought as error:
            assert error.usage.calls == 1, raw
        except Failure as error:  # what the client tries again, or tells
            assert str(error).strip(), raw
        else:
            assert isinstance(reply, Reply), raw
            assert reply.usage.calls >= 1 and reply.usage.prompt_tokens > 0, raw
            assert reply.text == reply.text.encode().decode(), raw


def says_something(raw: bytes) -> bool:
    """Whether a model has a part in an answer."""
    reader = Reader()
    reader.take(raw)
    return reader.end().begun
