"""Real weights: SmolLM2 with 135 million parameters. It shows the plumbing, not the quality of replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from lanes import NIGHT, async_pause, within
from playing import player, put

from kernel.asking.messages import sent
from kernel.asking.responder import Ask, Reply, ReplyForm
from kernel.errors import ProviderError
from runtime.api.fractal import shipped_system
from runtime.models import default_form
from runtime.models.human import Human
from runtime.models.llama import Llama
from runtime.models.micro.micro import Micro
from runtime.models.speed import speed

COUNTING = "Count from 1 to 500, one number on each line."


@pytest.fixture
def model(smollm: Path) -> Llama:
    return Llama(smollm, context=2048, threads=1)


@pytest.fixture
def question(make_ask: Callable[..., Ask]) -> Callable[..., Ask]:
    def make(text: str, kind: str = "text", **more: object) -> Ask:
        ask = make_ask(system="", user=text, max_tokens=int(str(more.pop("max_tokens", 60))))
        form = ReplyForm(kind, tuple(more.pop("options", ())), str(more.pop("begins", "")))  # type: ignore[arg-type]
        return replace(ask, form=form, **more)

    return make


async def reply_of(model: Llama, ask: Ask) -> Reply:
    reply = await model.answer(ask)
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.night
async def test_the_likely_reply_is_always_the_same_and_samples_differ(model, question):
    haiku = {"text": "Write a haiku about rivers.", "max_tokens": 60 if NIGHT else 20}
    first, again = [await reply_of(model, question(**haiku)) for _ in range(2)]
    samples = [await reply_of(model, question(**haiku, sample=n)) for n in (1, 2)]
    assert first.text == again.text
    assert len({first.text, *(each.text for each in samples)}) == 3


def test_tokens_that_are_guessed_are_evaluated_as_if_they_came_one_by_one(model):
    engine = model.load()
    prompt = engine.prompt(
        [{"role": "system", "content": ""}, {"role": "user", "content": "Say the days of the week."}]
    )
    guessed = engine.tokens("Monday, Tuesday and more")
    rows = engine.feed(prompt, guessed)
    one_by_one = [engine.feed([*prompt, *guessed[:at]])[0] for at in range(len(guessed) + 1)]
    assert len(rows) == len(one_by_one)
    for row, alone in zip(rows, one_by_one, strict=True):
        assert row[alone.argmax()] > row.max() - 0.5  # a batch is rounded in another way than a single token


@pytest.mark.night
async def test_each_token_of_a_reply_that_copies_its_prompt_is_the_likely_one(model, question):
    said = "Repeat: " + " ".join(f"item {n} is blue," for n in range(12))
    ask = question(said, max_tokens=80 if NIGHT else 48)
    reply = await reply_of(model, ask)
    engine = model.load()
    prompt, written = engine.prompt(sent(ask)), engine.tokens(reply.text)
    assert len(written) > 40
    for at, token in enumerate(written):
        (logits,) = engine.feed(prompt + written[:at])
        assert logits.max() - logits[token] < 0.5  # a batch is rounded in another way than a single token


async def test_a_choice_is_one_of_the_options_with_their_probabilities(model, question):
    ask = question("Is Paris a city or a river?", "choice", options=("a city", "a river"))
    reply = await reply_of(model, ask)
    assert set(reply.scores) == {"a city", "a river"}
    assert sum(reply.scores.values()) == pytest.approx(1, abs=0.001)
    assert reply.text == max(reply.scores, key=lambda option: reply.scores[option])


async def test_a_block_begins_as_it_is_told_and_ends_with_its_fence(model, question):
    ask = question(
        "Write a Python program that prints hello.", "block", begins="```python\nprint(", max_tokens=300
    )
    reply = await reply_of(model, ask)
    assert reply.text.startswith("```python\nprint(")
    assert reply.text.rstrip().endswith("```")
    assert not reply.truncated


async def test_a_reply_that_reaches_its_limit_is_marked(model, question):
    reply = await reply_of(model, question(COUNTING, max_tokens=8))
    assert reply.truncated
    assert reply.usage.completion_tokens == 8


async def test_a_cancelled_reply_stops_and_the_next_one_is_not_delayed(model, question):
    await reply_of(model, question("Hello.", max_tokens=4))
    writing = asyncio.create_task(model.answer(question(COUNTING, max_tokens=1500)))
    await async_pause(0.3)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    with within(5):
        await reply_of(model, question("Hello.", max_tokens=4))


async def test_a_reply_that_takes_too_long_is_an_error_of_the_provider(smollm, question):
    slow = Llama(smollm, context=2048, timeout=0.3, threads=1)
    slow.load()
    with pytest.raises(ProviderError, match=r"no reply within 0\.3 s"):
        await slow.answer(question(COUNTING, max_tokens=1500))


async def test_pieces_of_a_reply_arrive_while_it_is_written(model, question):
    pieces: list[str] = []
    reply = await reply_of(model, question(COUNTING, max_tokens=60, on_text=pieces.append))
    await asyncio.sleep(0)
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text


async def test_a_common_beginning_of_prompts_is_evaluated_once(model, question):
    text = "The river is long. " * (60 if NIGHT else 30)
    engine = model.load()
    await reply_of(model, question(f"{text}\nHow long is it?", max_tokens=1))
    before = engine.evaluated
    await reply_of(model, question(f"{text}\nHow wide is it?", max_tokens=1))
    assert engine.evaluated - before < 40


@pytest.mark.night
async def test_its_speed_is_measured(model):
    found = await speed(model)
    assert found.prompt_per_second > found.reply_per_second > 0
    assert found.megabytes > 100


def test_a_whole_run_with_real_weights_ends_and_leaves_a_readable_document(smollm, tmp_path):
    put(tmp_path / "work", "notes.md", "The budget was raised to 42,000 euros.\n")
    ladder = [Micro(Llama(smollm, context=2048, threads=1), [shipped_system()]), Human()]
    played = player(tmp_path / "work")(ladder, "According to notes.md, how high is the budget?")
    assert played.result.status in ("complete", "unverified", "waiting")
    assert played.result.spent["calls"] >= 1
    assert any(event.kind == "reply_delta" for event in played.events)


def test_small_local_models_are_asked_in_small_questions(smollm):
    assert default_form(f"llama:{smollm}") == "micro"
    forms = {
        name: default_form(name)
        for name in ("ollama/qwen2.5:3b", "ollama/llama3.3:70b", "openai/gpt-5", "mailbox")
    }
    assert list(forms.values()) == ["micro", "json", "json", "json"]
