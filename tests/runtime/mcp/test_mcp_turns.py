"""Tools of servers are reachable in every turn: those that fit are declared whole, the others by `use`."""

from __future__ import annotations

import json

import pytest
from llm_server import Answer, LlmServer
from mcp_place import fake

from kernel.asking.conversation import MOST_DECLARED
from kernel.asking.native import rendered
from kernel.asking.responder import estimate_tokens
from runtime.models.openai_client import OpenAI

OPEN, LIST = "hub-create-issue", "hub-list-commits"
TASK = "report the newest of the commits as an issue in our GitHub repository"


class Model:
    """A model that looks, looks a second time with another tool, and is done."""

    def __init__(self, *, native):
        self.native = native
        self.offered: list[set[str]] = []

    def __call__(self, body):
        self.offered.append(names_of(body))
        said = "\n".join(str(each.get("content")) for each in body["messages"])
        if f"called create_issue {json.dumps({'text': '42'})}" in said:
            return self.says("done", {"answer": "opened"})
        name, args = OPEN, {"text": "42"}
        if "called list_commits" not in said:
            name, args = LIST, {"text": "the branch"}
        if name not in self.offered[-1]:
            name, args = "use", {"tool": name, "args": args}
        return self.says(name, args)

    def says(self, name, args):
        if self.native:
            return Answer("", calls=((name, json.dumps(args)),))
        return Answer(json.dumps({"calls": [{"tool": name, "args": args}]}))


def names_of(body):
    if "tools" in body:
        return {each["function"]["name"] for each in body["tools"]}
    system = body["messages"][0]["content"]
    return {line.partition("(")[0] for line in system.partition("Tools:\n")[2].splitlines()}


@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
@pytest.mark.parametrize(
    ("number", "profile", "window"),
    [(3, "compact", 8_000), (8, "standard", 32_000), (40, "large", 128_000), (300, "compact", 128_000)],
)
def test_a_task_that_needs_a_second_look_has_the_tools_of_servers(
    place, play, native, number, profile, window
):
    place.write({"hub": fake(f"many{number}")})
    place.lists()
    model = Model(native=native)
    with LlmServer().running() as server:
        server.always(model)
        responder = OpenAI("openai/m", api_base=server.url, native=native, context=window)
        settings = {"profile": profile, "check": "auto"}
        played = play([responder], TASK, settings=settings)
        bodies = list(server.bodies)
    steps = [(step.tool, step.state) for step in played.root.steps.values()]
    assert steps == [(LIST, "done"), (OPEN, "done")]
    assert played.result.output == "opened"
    assert all(offered == model.offered[0] for offered in model.offered), "the declared calls stay"
    assert OPEN in model.offered[0], "the tool that suits the task is declared"
    if number <= 8:
        assert len([name for name in model.offered[0] if name.startswith("hub-")]) == number
    if native:
        schemas = [each for each in bodies[0]["tools"] if each["function"]["name"].startswith("hub-")]
        assert sum(estimate_tokens(rendered(each)) for each in schemas) <= MOST_DECLARED
        opened = next(each["function"] for each in schemas if each["function"]["name"] == OPEN)
        assert opened["parameters"]["properties"] == {"text": {"type": "string"}}
        assert opened["parameters"]["required"] == ["text"]
        called = [each for each in bodies[-1]["messages"] if each.get("tool_calls")]
        names = [each["tool_calls"][0]["function"]["name"] for each in called]
        assert all(name in model.offered[0] for name in names), "history calls what is declared"


@pytest.mark.parametrize("number", [1, 8, 40, 300])
def test_use_finds_a_tool_by_words_and_says_how_it_is_called(place, play, number):
    place.write({"hub": fake(f"many{number}")})
    place.lists()
    found = {}

    def answers(ask):
        last = ask.messages[-1]["content"] if ask.step > 1 or ask.document.planned else ""
        if not last:
            return {"calls": [{"tool": "use", "args": {"tool": "open an issue in a repository"}}]}
        if "by these words" in last:
            found["lines"] = last
            return {"calls": [{"tool": "use", "args": {"tool": "hub-create-issue"}}]}
        found["guidance"] = last
        return {"done": "seen"}

    play(answers, "count the lines of notes.md", settings={"check": "auto"})
    assert "- hub-create-issue(text): Open a new issue in a GitHub repository." in found["lines"]
    assert 'args: {"text":' in found["guidance"]


def test_what_some_providers_refuse_is_reached_by_use_only(place, play):
    place.write({"bad": fake("hostile")})
    place.lists()
    seen = []

    def answers(ask):
        seen.append({each["function"]["name"] for each in ask.tools})
        return {"done": "seen"}

    play(answers, "obey the remote loop", settings={"check": "auto"})
    assert {name for name in seen[0] if name.startswith("bad-")} == {
        "bad-loop",
        "bad-obey",
        "bad-escape",
        "bad-code",
        "bad-bare",
        "bad-pattern",
    }
