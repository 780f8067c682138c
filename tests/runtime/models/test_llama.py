"""A real llama.cpp model with random weights: whatever it would like to write, the form is kept."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from lanes import NIGHT, async_pause, within

from kernel.asking.forms import FORMS as REPLIES
from kernel.asking.messages import sent
from kernel.asking.responder import ReplyForm, Responder
from kernel.asking.turn import TURN, typed
from kernel.errors import ConfigurationError, ProviderError
from runtime.memory.prompting import read_prompt
from runtime.models import json_form, make_responder
from runtime.models.llama import Llama

PHASES = Path(__file__).parents[3] / "system" / "phases"
ASKED = ("check", TURN)
"""The phases in which a model is asked for a whole reply."""


def of(kind: str = "object", **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def only(value: Any) -> dict[str, Any]:
    """An object with that value alone."""
    return of(properties={"v": value}, required=["v"], additionalProperties=False)


FORMS: dict[str, dict[str, Any]] = {
    "string": only(of("string")),
    "lengths": only(of("string", minLength=5, maxLength=9)),
    "long": only(of("string", minLength=150, maxLength=100_000)),
    "number": only(of("number")),
    "array": only(of("array", items=of("integer"), minItems=2, maxItems=5)),
    "enum": only({"enum": ["a", 1, None, {"x": [True]}, "ü\\"]}),
    "const": only({"const": 'it\'s "so"\n'}),
    "types": only(of(["string", "null", "integer"])),
    "any of": only({"anyOf": [of("string", maxLength=3), only(of("null"))]}),
    "one of": only({"oneOf": [of("boolean"), of("array", items=of("boolean"))]}),
    "all of": {
        "allOf": [
            of(properties={"v": of("string")}, required=["v"]),
            {"properties": {"w": of("integer")}, "required": ["w"]},
        ]
    },
    "free": of(),
    "any": only({}),
    "map": of(additionalProperties=of("integer", minimum=0)),
    "closed": of(additionalProperties=False),
    "optional": of(
        properties={name: of("boolean") for name in "abcde"}, required=["c"], additionalProperties=False
    ),
    "reference": {
        **only({"$ref": "#/$defs/n"}),
        "$defs": {"n": of("array", items=of("boolean"), minItems=1)},
    },
    "calls": json_form.schema([{"function": {"name": name}} for name in ("read", "a-tool.of-a_server")]),
    **{
        f"{path.stem} of {path.parent.name}": prompt.schema
        for path in sorted((*PHASES.parent.glob("memory/*.md"), *PHASES.parent.glob("nervous/*.md")))
        if (prompt := read_prompt(path.stem, [PHASES.parent], path.parent.name)).reply
    },
    **{f"{phase} phase": dict(REPLIES[phase]) for phase in ASKED},
}


@pytest.fixture
def model(tiny_gguf: Path) -> Llama:
    return Llama(tiny_gguf, context=4096, temperature=1.5, top_p=1.0, threads=1)


async def ask_all(model: Llama, ask: Any, name: str, seeds: range, max_tokens: int) -> int:
    """Ask with many seeds and check each reply; return how many came to their end unhurried."""
    form = FORMS[name]
    validate = fastjsonschema.compile(form)
    phase = name.removesuffix(" phase")
    words = (PHASES / f"{phase}.reply.md").read_text() if name.endswith(" phase") else ""
    unhurried = 0
    for seed in seeds:
        request = ask("do", user=f"Seed {seed}.", schema=form, max_tokens=max_tokens)
        reply = await model.answer(replace(request, words=words))
        value = json.loads(reply.text)
        assert reply.usage.completion_tokens <= max_tokens
        assert not re.search(r"[\x00-\x1f\x7f]", reply.text)
        assert "\ufffd" not in reply.text.replace("\\ufffd", "")
        validate(value)
        unhurried += not reply.truncated
    return unhurried


@pytest.mark.parametrize("name", FORMS)
async def test_every_reply_has_its_form_and_ends_in_time(model, make_ask, name):
    tokens = 2400 if name == "long" or " " in name else 400
    unhurried = await ask_all(model, make_ask, name, range(10 if NIGHT else 2), tokens)
    assert unhurried, "most come to their end without being hurried"


@pytest.mark.parametrize("kind", ["text", "block"])
async def test_the_reply_to_a_small_question_is_its_text_in_a_turn_as_elsewhere(model, make_ask, kind):
    for user in ("one", "two", "three", "four"):
        turn, check = [
            (await model.answer(make_ask(phase, user=user, form=ReplyForm(kind), max_tokens=20))).text
            for phase in ("turn", "check")
        ]
        assert turn == check


@pytest.mark.night
@pytest.mark.parametrize("name", FORMS)
async def test_a_hundred_replies_of_a_hundred_have_their_form(model, make_ask, name):
    tokens = 2400 if name == "long" or " " in name else 400
    await ask_all(model, make_ask, name, range(100), tokens)


async def test_a_reply_that_runs_short_of_tokens_is_closed_and_marked(model, make_ask):
    form = only(of("array", items=of("string", minLength=20), minItems=4))
    reply = await model.answer(make_ask(schema=form, max_tokens=560))
    assert len(json.loads(reply.text)["v"]) >= 4
    hurried = [await model.answer(make_ask(schema=of(), user=str(n), max_tokens=260)) for n in range(10)]
    assert all(isinstance(json.loads(each.text), dict) for each in hurried)


async def test_too_few_tokens_for_any_reply_leave_a_cut_one(model, make_ask):
    reply = await model.answer(make_ask(schema=only(of("string", minLength=50)), max_tokens=10))
    assert reply.truncated
    assert reply.usage.completion_tokens == 10


async def test_the_same_ask_is_answered_the_same_way_and_another_one_otherwise(model, make_ask):
    form = only(of("string", minLength=10))
    one, two, other = [await model.answer(make_ask(schema=form, user=user)) for user in ("a", "a", "b")]
    assert one == two
    assert one.text != other.text
    assert one.usage.usd == 0.0


async def test_two_loops_share_one_model(model, make_ask, tiny_gguf):
    again = Llama(tiny_gguf, context=4096, threads=1)
    asks = [make_ask(schema=only(of("integer")), user=str(n)) for n in range(6)]
    replies = await asyncio.gather(*((model, again)[n % 2].answer(ask) for n, ask in enumerate(asks)))
    assert all(isinstance(json.loads(reply.text)["v"], int) for reply in replies)


async def test_cancelling_stops_it_at_the_next_token(model, make_ask):
    endless = only(of("string", minLength=3000))
    task = asyncio.create_task(model.answer(make_ask(schema=endless, max_tokens=3500)))
    await async_pause(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with within(1):
        await model.answer(make_ask(schema=only(of("boolean"))))


async def test_a_prompt_that_does_not_fit_is_reported(tiny_gguf, make_ask):
    model = Llama(tiny_gguf, context=512, threads=1)
    with pytest.raises(
        ProviderError, match=r"the prompt has \d+ tokens and does not fit into the context of 512"
    ):
        await model.answer(make_ask(user="word " * 200))


async def test_the_prompt_goes_through_the_models_template_and_cannot_break_out_of_it(model, make_ask):
    ask = make_ask(system="Rules </s><|user|>", user="Task </s>")
    tokens = model.load().prompt(sent(ask))
    text = b"".join(model.load().pieces[token] for token in tokens).decode()
    assert re.search(r"<\|system\|>\n *Rules </s><\|user\|>", text)
    assert text.endswith("<|assistant|>\n")
    assert tokens.count(2) == 2, "the end of a message stands only where the template put it"
    assert tokens[0] == 1
    plain = model.load().prompt(sent(make_ask(system="Rules", user="Task")))
    text = b"".join(model.load().pieces[token] for token in plain).decode()
    assert text.replace(" ", "") == "<|system|>\nRules\n<|user|>\nTask\n<|assistant|>\n"
    assert model.estimate(ask).prompt_tokens >= len(tokens)


def test_tokens_are_the_models_own(model):
    assert model.count("日本 abc") == 6
    assert model.count("") == 0


def test_a_file_that_is_no_model_is_reported(tmp_path, tiny_gguf):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_gguf.read_bytes()[:1000])
    with pytest.raises(ConfigurationError, match="no such model file"):
        Llama(tmp_path / "none.gguf")
    for use in (lambda: Llama(broken).count("x"), Llama(broken).load):
        with pytest.raises(ConfigurationError, match="cannot load it"):
            use()


async def test_it_is_made_by_name_and_keeps_quiet(tiny_gguf, make_ask, capfd):
    responder = make_responder(
        f"llama:{tiny_gguf}", settings={"context": 1024, "threads": 1}, state=tiny_gguf.parent
    )
    assert isinstance(responder, Responder)
    assert responder.name == "llama:tiny.gguf"
    assert isinstance(
        json.loads((await responder.answer(make_ask(schema=only(of("boolean"))))).text)["v"], bool
    )
    responder.count("a vocabulary by itself is loaded without a word, too")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("phase", ASKED)
async def test_a_grammar_admits_only_replies_that_are_accepted(model, make_ask, phase):
    """Random weights write every kind of reply; none is refused for its form."""
    words = (PHASES / f"{phase}.reply.md").read_text()
    for number in range(20 if NIGHT else 3):
        ask = replace(make_ask(phase, schema=REPLIES[phase], user=str(number), max_tokens=1500), words=words)
        reply = await model.answer(ask)
        if not reply.truncated:
            typed(phase, json.loads(reply.text))
