"""The public fake model."""

from __future__ import annotations

import asyncio
import json

import pytest
from lanes import within

from kernel.asking.responder import Reply, Responder, Usage, Waits
from kernel.errors import ConfigurationError, Declined, ProviderError
from runtime.models.prices import Price
from runtime.models.scripted import Scripted, When


async def reply_to(responder, ask):
    return json.loads((await responder.answer(ask)).text)


async def test_a_list_is_answered_in_order(make_ask):
    scripted = Scripted([{"a": 1}, "raw {text", {"a": 3}])
    assert await reply_to(scripted, make_ask()) == {"a": 1}
    assert (await scripted.answer(make_ask())).text == "raw {text"
    assert await reply_to(scripted, make_ask()) == {"a": 3}


def test_it_is_a_responder():
    scripted = Scripted([])
    assert isinstance(scripted, Responder)
    assert (scripted.name, scripted.tier, scripted.reads_prompt) == ("scripted", "worker", True)


async def test_an_ask_without_a_reply_is_named(make_ask):
    scripted = Scripted([When(phase="plan", reply={})])
    ask = make_ask("check", loop="tool-x-1", level="tool", task="find the owl", attempt=2)
    with pytest.raises(
        ProviderError, match=r"check of tool-x-1 \(attempt 2.*level tool; task: 'find the owl'"
    ):
        await scripted.answer(ask)
    assert scripted.asks == [ask]


async def test_a_mapping_answers_by_phase_and_level(make_ask):
    scripted = Scripted({"plan/tool": {"a": 1}, "plan": [{"a": 2}, {"a": 3}], ("check", "tool"): {"a": 4}})
    assert await reply_to(scripted, make_ask("plan", level="tool")) == {"a": 1}
    assert await reply_to(scripted, make_ask("plan", level="tool")) == {"a": 1}
    assert await reply_to(scripted, make_ask("plan")) == {"a": 2}
    assert await reply_to(scripted, make_ask("plan")) == {"a": 3}
    assert await reply_to(scripted, make_ask("check", level="tool")) == {"a": 4}
    with pytest.raises(ProviderError):
        await scripted.answer(make_ask("plan"))


async def test_entries_match_on_whatever_they_name(make_ask):
    scripted = Scripted(
        [
            When(task="owl", reply={"a": "owl"}),
            When(loop="-1.2$", reply={"a": "loop"}),
            When(phase=["do", "check"], attempt=2, step=3, turn=1, reply={"a": "narrow"}),
            When(prompt="SECRET", reply={"a": "prompt"}),
            When(reply={"a": "rest"}, times=2),
        ]
    )
    assert await reply_to(scripted, make_ask(task="an owl")) == {"a": "owl"}
    assert await reply_to(scripted, make_ask(loop="tool-r-abc123-1.2")) == {"a": "loop"}
    assert await reply_to(scripted, make_ask("check", attempt=2, step=3, turn=1)) == {"a": "narrow"}
    assert await reply_to(scripted, make_ask(system="a SECRET")) == {"a": "prompt"}
    assert await reply_to(scripted, make_ask("check", attempt=2, step=3)) == {"a": "rest"}


async def test_loops_side_by_side_get_the_same_replies_in_any_order(make_ask):
    asks = [make_ask(task=f"child {n}") for n in range(6)]
    script = [When(task=f"child {n}$", reply={"n": n}, delay=0.01 * (n % 3)) for n in range(6)]
    for order in (asks, asks[::-1]):
        scripted = Scripted(script)
        replies = await asyncio.gather(*(reply_to(scripted, ask) for ask in order))
        assert [reply["n"] for reply in replies] == [int(ask.document.task[-1]) for ask in order]


async def test_a_function_answers_waits_and_raises(make_ask):
    async def later(ask):
        await asyncio.sleep(0)
        return {"phase": ask.phase}

    assert await reply_to(Scripted(later), make_ask("do")) == {"phase": "do"}
    assert await reply_to(Scripted([When(reply=later)]), make_ask("do")) == {"phase": "do"}
    waits = Waits("person", "Which one?")
    assert await Scripted(lambda ask: waits).answer(make_ask()) is waits
    reply = Reply("{}", "other")
    assert await Scripted(lambda ask: reply).answer(make_ask()) is reply
    with pytest.raises(ProviderError, match="has no reply to plan"):
        await Scripted(lambda ask: None).answer(make_ask())


async def test_errors_are_raised_as_a_provider_would(make_ask):
    scripted = Scripted(
        [
            When(error="provider", times=1),
            When(error={"declined": "not mine"}, times=1),
            When(error=ConfigurationError("no key")),
        ]
    )
    for expected, message in (
        (ProviderError, "plan of system"),
        (Declined, "not mine"),
        (ConfigurationError, "key"),
    ):
        with pytest.raises(expected, match=message):
            await scripted.answer(make_ask())


async def test_tokens_and_money_are_counted(make_ask):
    scripted = Scripted(
        ["abcdef", When(reply="{}", usage={"usd": 0.5, "prompt_tokens": 7})], price=Price(3, 6)
    )
    ask = make_ask(system="x" * 30, user="y" * 60, max_tokens=100)
    assert scripted.estimate(ask) == Usage(30, 100, pytest.approx(0.00069))
    assert (await scripted.answer(ask)).usage == Usage(30, 2, pytest.approx(0.000102))
    assert (await scripted.answer(ask)).usage == Usage(7, 1, 0.5)
    assert Scripted([], price=None).estimate(ask).usd is None


async def test_a_reply_may_take_time_and_be_cut(make_ask):
    scripted = Scripted([When(reply='{"a": ', truncated=True, delay=0.05)])
    with within(60, least=0.05):
        assert (await scripted.answer(make_ask())).truncated


SCRIPT = """
- phase: plan
  task: owl
  reply: {approach: look, steps: []}
- {phase: do, error: {declined: too hard}}
- reply: |
    not an object
- {a: 1}
"""


async def test_a_script_is_read_from_yaml_and_json(tmp_path, make_ask):
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT)
    scripted = Scripted.from_file(path)
    assert scripted.name == "scripted:script.yaml"
    assert await reply_to(scripted, make_ask(task="an owl")) == {"approach": "look", "steps": []}
    with pytest.raises(Declined, match="too hard"):
        await scripted.answer(make_ask("do"))
    assert (await scripted.answer(make_ask())).text == "not an object\n"
    assert await reply_to(scripted, make_ask()) == {"a": 1}
    other = tmp_path / "script.json"
    other.write_text('{"plan": {"a": 1}}')
    assert await reply_to(Scripted.from_file(other), make_ask()) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just words", "list of replies"),
        ("[1, {", "not valid YAML or JSON"),
        ("- {reply: {}, phaze: plan}", "phaze"),
        ("- {error: sometimes}", "error is one of"),
        ("- {task: '(', reply: {}}", "invalid pattern"),
    ],
)
def test_a_broken_script_says_what_is_wrong_and_where(tmp_path, text, message):
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=f"script.yaml: .*{message}"):
        Scripted.from_file(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Scripted.from_file(tmp_path / "none.yaml")
