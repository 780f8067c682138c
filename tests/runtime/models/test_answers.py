"""What servers answer, as it was seen: a row each, with the bytes that come and what becomes of them."""

# ruff: noqa: E501 (the rows of tables)

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from llm_server import Answer, LlmServer

from kernel.asking.responder import Ask
from kernel.errors import ProviderError
from runtime.models.openai_client import OpenAI
from runtime.models.prices import Price
from runtime.text.json_reader import read_reply

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "text of a file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}
SAID = ({"role": "system", "content": "You work."}, {"role": "user", "content": "Count the lines."})
A, B = '{"path": "a.txt"}', '{"path": "b.txt"}'
CALL = {"tool": "read", "args": {"path": "a.txt"}}
OTHER = {"tool": "read", "args": {"path": "b.txt"}}
OBJECT = '{"calls": [{"tool": "read", "args": {"path": "a.txt"}}]}'
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
PRICE = Price(1, 10)


@pytest.fixture
def asked(llm_server: LlmServer, make_ask: Callable[..., Ask]) -> Callable[..., Any]:
    """Ask a model in one of the forms of a turn; answers what the loop reads of its reply, and its usage."""

    async def ask(native: bool, **settings: Any) -> tuple[dict[str, Any], Any]:
        given = {"api_base": llm_server.url, "retries": 1, "backoff": 0.01, "price": PRICE, **settings}
        model = OpenAI("openai/some-model", native=native, **given)
        reply = await model.answer(
            make_ask("turn", system="", user="", tools=(READ,), messages=SAID, max_tokens=2000)
        )
        assert not isinstance(reply, str)
        return json.loads(reply.text or '{"calls": [], "text": ""}'), reply.usage  # type: ignore[union-attr]

    return ask


def call(arguments: Any = A, name: Any = "read", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*each: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(each), **more}


def text(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


BLUE = {"calls": [], "text": "It is blue."}
ONE = {"calls": [CALL], "text": ""}
TWO = {"calls": [CALL, OTHER], "text": ""}
DEEPSEEK = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n"
    f"{A}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
MESSAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # calls
    "a call": (calls(call()), ONE),
    "arguments as an object": (calls(call({"path": "a.txt"})), ONE),
    "arguments as JSON of JSON": (calls(call(json.dumps(A))), ONE),
    "a call alone, not in a list": ({"role": "assistant", "tool_calls": call()}, ONE),
    "two calls without an index": (calls(call(), call(B)), TWO),
    "two calls with one index": (calls(call(index=0), call(B, index=0)), TWO),
    "two calls with an empty index": (calls(call(index=None), call(B, index=None)), TWO),
    "a call of the legacy kind": ({"content": None, "function_call": {"name": "read", "arguments": A}}, ONE),
    "name and arguments outside of function": (calls({"name": "read", "arguments": A}), ONE),
    "parameters in place of arguments": (
        calls({"function": {"name": "read", "parameters": {"path": "a.txt"}}}),
        ONE,
    ),
    "a call as a part of the content": (
        text([{"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a.txt"}}]),
        ONE,
    ),
    "an empty element beside the call": (calls(None, call()), ONE),
    # what stands around a name is taken away where the loop reads the turn
    # content
    "text": (text("It is blue."), BLUE),
    "content in parts": (text([{"type": "text", "text": "It is "}, {"type": "text", "text": "blue."}]), BLUE),
    "content in bare texts": (text(["It is ", "blue."]), BLUE),
    "content in one part": (text({"type": "text", "text": "It is blue."}), BLUE),
    "content as the object itself": (text({"calls": [CALL]}), ONE),
    "content that is refused as null": (text("It is blue.", refusal=None), BLUE),
    "an object": (text(OBJECT), ONE),
    "an object in a fence": (text(f"```json\n{OBJECT}\n```"), ONE),
    "a byte order mark": (text(f"\ufeff{OBJECT}"), ONE),
    "marks at the end": (text("It is blue.<|im_end|>\n<|endoftext|>"), BLUE),
    "a sentence mark at the end": (text("It is blue.</s>"), BLUE),
    "lines of other alphabets": (
        text("It is blue.\u2028Or\u2029not\x85."),
        {"calls": [], "text": "It is blue.\u2028Or\u2029not\x85."},
    ),
    "marks of thinking that the text speaks of": (
        text("The tags `<think>x</think>` mark it."),
        {"calls": [], "text": "The tags `<think>x</think>` mark it."},
    ),
    # thinking
    "an object after thinking with marks of Kimi": (text(f"◁think▷I could {{do}} this◁/think▷{OBJECT}"), ONE),
    "thinking beside the text": (text("It is blue.", reasoning_content="hm {no}"), BLUE),
    "thinking by another name": (
        text("It is blue.", reasoning="hm", reasoning_details=[{"text": "hm"}]),
        BLUE,
    ),
    "thinking as a part": (
        text([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"text": "It is blue."}]),
        BLUE,
    ),
    "thinking in tags": (text("<think>\nIs it {blue}?\n</think>\n\nIt is blue."), BLUE),
    "thinking that was opened in the prompt": (text("Is it?\n</think>\n\nIt is blue."), BLUE),
    "thinking in brackets": (text("[THINK]Is it?[/THINK]It is blue."), BLUE),
    "thinking before an object": (text(f"<think>I could {{do}} this</think>\n{OBJECT}"), ONE),
    "thinking beside a call": (calls(call(), reasoning_content="hm", content="<think>hm</think>\n\n"), ONE),
    "the object in the thinking only": (text("", reasoning_content=OBJECT), ONE),
    "the object at the end of the thinking": (text(None, reasoning=f"I write {{it}}:\n\n{OBJECT}"), ONE),
    "channels": (
        text(
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>It is blue."
        ),
        BLUE,
    ),
    # calls in the text
    "Hermes": (text(f'<tool_call>\n{{"name": "read", "arguments": {A}}}\n</tool_call>'), ONE),
    "Hermes, two": (
        text("".join(f'<tool_call>{{"name": "read", "arguments": {each}}}</tool_call>\n' for each in (A, B))),
        TWO,
    ),
    "Hermes behind words": (
        text(f'I look.\n<tool_call>{{"name": "read", "arguments": {A}}}</tool_call>'),
        {"calls": [CALL], "text": "I look."},
    ),
    "Hermes without an end": (text(f'<tool_call>\n{{"name": "read", "arguments": {A}}}'), ONE),
    "Qwen Coder": (
        text(
            "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
        ),
        ONE,
    ),
    "a function with JSON": (text(f"<function=read>{A}</function>"), ONE),
    "GLM": (
        text("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>"),
        ONE,
    ),
    "MiniMax": (
        text(
            '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">a.txt</parameter>\n'
            "</invoke>\n</minimax:tool_call>"
        ),
        ONE,
    ),
    # llama-cpp-python takes the tags of Qwen2.5 away, whose template shows the object in two pairs of braces
    "Qwen without its tags": (
        text(f'{{{{"name": "read", "arguments": {A}}}}}\n{{{{"name": "read", "arguments": {B}}}}}'),
        TWO,
    ),
    "Qwen without its tags, one": (text(f'\n{{{{"name": "read", "arguments": {A}}}}}\n'), ONE),
    "Hermes with two pairs of braces": (
        text(f'<tool_call>\n{{{{"name": "read", "arguments": {A}}}}}\n</tool_call>'),
        ONE,
    ),
    "objects alone": (
        text(f'{{"name": "read", "arguments": {A}}}\n{{"name": "read", "arguments": {B}}}'),
        TWO,
    ),
    "an object behind words": (
        text(f'I look.\n\n{{"name": "read", "arguments": {A}}}'),
        {"calls": [CALL], "text": "I look."},
    ),
    "DeepSeek": (text(DEEPSEEK), ONE),
    "DeepSeek 3.1": (
        text(
            f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{A}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        ONE,
    ),
    "DeepSeek 3.2": (
        text(
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read">\n'
            '<｜DSML｜parameter name="path" string="true">a.txt</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
        ),
        ONE,
    ),
    "Mistral": (text(f'[TOOL_CALLS][{{"name": "read", "arguments": {A}}}]'), ONE),
    "Mistral 3": (text(f"[TOOL_CALLS]read[ARGS]{A}[TOOL_CALLS]read[ARGS]{B}"), TWO),
    "Llama": (text(f'<|python_tag|>{{"name": "read", "parameters": {A}}}<|eom_id|>'), ONE),
    "Llama, as Python": (text('<|python_tag|>read.call(path="a.txt")<|eom_id|>'), ONE),
    "Llama 4": (text('[read(path="a.txt"), read(path="b.txt")]'), TWO),
    "Kimi": (
        text(
            "<|tool_calls_section_begin|><|tool_call_begin|>read<|tool_call_argument_begin|>"
            f"{A}<|tool_call_end|><|tool_calls_section_end|>"
        ),
        ONE,
    ),
    "Granite and Phi": (text(f'<|tool_call|>[{{"name": "read", "arguments": {A}}}]'), ONE),
    "Cohere": (
        text(
            f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "read", "parameters": {A}}}]<|END_ACTION|>'
        ),
        ONE,
    ),
    "Nemotron": (text(f'<TOOLCALL>[{{"name": "read", "arguments": {A}}}]</TOOLCALL>'), ONE),
    "Gemma": (text('```tool_code\nread(path="a.txt")\n```'), ONE),
    "channels with a call": (
        text(f"<|channel|>commentary to=read <|constrain|>json<|message|>{A}<|call|>"),
        ONE,
    ),
}


def whole(message: dict[str, Any], **more: Any) -> bytes:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish, **more}
    return json.dumps({"choices": [choice], "usage": USAGE}, ensure_ascii=False).encode()


def delta(piece: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": piece, "finish_reason": finish}], **more}


def sse(*events: Any, done: bool = True, end: str = "\n\n") -> bytes:
    lines = [
        f"data: {each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)}{end}"
        for each in events
    ]
    return "".join([*lines, f"data: [DONE]{end}" if done else ""]).encode("utf-8")


LAST = {"choices": [], "usage": USAGE}


@pytest.mark.parametrize(("message", "turn"), MESSAGES.values(), ids=MESSAGES.keys())
async def test_a_message_is_understood_in_one_piece_and_in_a_stream(llm_server, asked, message, turn):
    ways = (
        (whole(message), "application/json"),
        (sse(delta(message), delta({}, "stop"), LAST), "text/event-stream"),
    )
    for raw, kind in ways:
        for native in (True, False):
            llm_server.queue(Answer(raw=raw, headers={"Content-Type": kind}))
            read, used = await asked(native)
            assert {**read, "text": read["text"].strip()} == turn, (kind, native)
            assert (used.calls, used.prompt_tokens, used.completion_tokens) == (1, 100, 20)


@dataclass(frozen=True)
class Told:
    """A clear error, told at once."""

    words: str
    paid: bool = False


@dataclass(frozen=True)
class Again:
    """The next attempt may succeed."""

    paid: bool = False


OBJECT = f'{{"name": "read", "arguments": {A}}}'


@pytest.mark.parametrize(
    "said",
    [
        f"This is the file:\n[\n{OBJECT}\n]",
        f"This is the file:\n[\n  {OBJECT},\n  {OBJECT}\n]",
        f'{{"tools": [\n{OBJECT}\n]}}',
        f'{{"call":\n{OBJECT}\n}}',
        f'[{{"x": 1}},\n{OBJECT}\n]',
        f"A call looks like this:\n\n    {OBJECT}",
        f"A call looks like this:\n```json\n{OBJECT}\n```",
    ],
)
async def test_an_object_that_is_a_part_of_json_or_of_code_is_no_call(llm_server, asked, said):
    llm_server.say(said)
    read, _ = await asked(True)
    assert (read["calls"], read["text"]) == ([], said)


@pytest.mark.parametrize("said", ['{"text": "It is blue."}', '{"calls": [], "text": "It is blue."}'])
@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
async def test_an_answer_in_the_form_of_calls_as_text_is_its_text(llm_server, asked, said, native):
    """A model that is taught by its conversation, as Qwen2.5-Coder 1.5B was, writes it so."""
    llm_server.say(said)
    read, _ = await asked(native)
    assert (read["calls"], read["text"]) == ([], "It is blue.")


@pytest.mark.parametrize("before", ["", "Here it is:\n", "Here it is:\n```json\n"])
async def test_a_closing_mark_in_a_string_ends_no_thinking(llm_server, make_ask, before):
    said = f'{before}{{"answer": "it ends with </think> here"}}'
    llm_server.say(said)
    model = OpenAI("openai/some-model", api_base=llm_server.url)
    assert read_reply((await model.answer(make_ask())).text) == {"answer": "it ends with </think> here"}


async def test_an_object_with_other_members_is_what_the_model_says(llm_server, asked):
    said = '{"text": "It is blue.", "score": 1}'
    llm_server.say(said)
    read, _ = await asked(True)
    assert read["text"] == said


HELLO = [
    delta({"role": "assistant", "content": ""}),
    delta({"content": "It is "}),
    delta({"content": "blue."}),
]
STOP = delta({}, "stop")
GOOD = sse(*HELLO, STOP, LAST)
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
PIECES = [delta({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "read", "arguments": ""}}]})]
PIECES += [
    delta({"tool_calls": [{"index": 0, "function": {"arguments": each}}]}) for each in (A[:5], A[5:9], A[9:])
]


def piece(arguments: Any, name: str | None = "read", **more: Any) -> dict[str, Any]:
    return delta({"tool_calls": [{**more, "function": {"name": name, "arguments": arguments}}]})


BYTES: dict[str, tuple[bytes, Any]] = {
    "arguments under numbers of their own": (
        sse(PIECES[0], *(delta({"tool_calls": [{"index": at, "function": {"arguments": each}}]})
                         for at, each in enumerate((A[:5], A[5:]), 1)), STOP), ONE),
    # the form of a stream
    "a stream": (GOOD, BLUE),
    "lines that end with CR and LF": (GOOD.replace(b"\n", b"\r\n"), BLUE),
    "lines that end with CR": (GOOD.replace(b"\n", b"\r"), BLUE),
    "no blank after data:": (GOOD.replace(b"data: ", b"data:"), BLUE),
    "no blank line between events": (GOOD.replace(b"\n\n", b"\n"), BLUE),
    "data: twice": (GOOD.replace(b"data: {", b"data: data: {"), BLUE),
    "no data: at all": (GOOD.replace(b"data: ", b""), BLUE),
    "data on several lines": (b'data: {"choices": [{"delta":\ndata: {"content": "It is blue."},\n'
     b'data: "finish_reason": "stop"}]}\n\n', BLUE),
    "comments, names, numbers and times": (
        b": OPENROUTER PROCESSING\n\nretry: 500\n\n" + GOOD.replace(b"data:", b"event: message\nid: 7\ndata:")
        + b": bye\n\n", BLUE),
    "a byte order mark before it": (b"\xef\xbb\xbf" + GOOD, BLUE),
    "words that keep it alive": (sse("ping", *HELLO, "keep-alive", "null", STOP), BLUE),
    "events after the last one": (GOOD + sse(delta({"content": " Or not."})), BLUE),
    "lists of events": (sse([HELLO[1]], [HELLO[2], STOP]), BLUE),
    "a message in a stream": (sse({"choices": [{"message": text("It is blue."), "finish_reason": "stop"}]}), BLUE),
    "the whole message after its pieces": (
        sse(*HELLO, {"choices": [{"message": text("It is blue."), "finish_reason": "stop"}]}), BLUE),
    "messages as pieces": (sse(*({"choices": [{"message": text(each)}]} for each in ("It is ", "blue.")), STOP), BLUE),
    "text in place of a delta": (sse({"choices": [{"text": "It is blue.", "finish_reason": "stop"}]}), BLUE),
    "an array of events": (json.dumps([*HELLO, STOP]).encode(), BLUE),
    "a line for each event": (b"\n".join(json.dumps(each).encode() for each in (*HELLO, STOP)), BLUE),
    "Ollama's own form": (
        b'{"message": {"role": "assistant", "content": "It is "}, "done": false}\n'
        b'{"message": {"content": "blue."}, "done": true, "prompt_eval_count": 9, "eval_count": 4}\n', BLUE),
    "several choices": (
        sse(*({"choices": [{"index": at, "delta": {"content": each}}]} for at, each in
              ((0, "It is "), (1, "Red"), (0, "blue."), (1, "!"))), STOP), BLUE),
    "several choices of a whole answer": (
        json.dumps({"choices": [{"index": at, "message": text(each), "finish_reason": "stop"} for at, each in
                                ((0, "It is blue."), (1, "Red"))]}).encode(), BLUE),
    "choices without a delta": (sse({"choices": [{"index": 0}]}, {"choices": None}, {}, *HELLO, STOP), BLUE),
    "the filter's results first": (sse({"choices": [], "prompt_filter_results": []}, *HELLO, STOP), BLUE),
    # its end
    "no finish_reason": (sse(*HELLO, LAST), BLUE),
    "no [DONE]": (sse(*HELLO, STOP, done=False), BLUE),
    "no end but what was used": (sse(*HELLO, LAST, done=False), BLUE),
    "no end at all, with a complete call": (sse(*PIECES, done=False), ONE),
    "no end at all": (sse(*HELLO, done=False), Again(paid=True)),
    "half of an event": (sse(*HELLO, done=False) + b'data: {"choices": [{"del', Again(paid=True)),
    "half of an answer": (whole(text("It is blue."))[:40], Again(paid=True)),
    "nothing": (b"", Again(paid=True)),
    "[DONE] alone": (sse(), {"calls": [], "text": ""}),
    "finish_reason in the delta": (sse(*HELLO, delta({"finish_reason": "stop"}), done=False), BLUE),
    "finish_reason of the event": (sse(*HELLO, {**delta({}), "finish_reason": "stop"}, done=False), BLUE),
    "finish_reason of another provider": (sse(*HELLO, delta({}, "END_TURN"), done=False), BLUE),
    "tool_calls without a call": (sse(*HELLO, delta({}, "tool_calls")), BLUE),
    "stop beside a call": (sse(*PIECES, STOP), ONE),
    "length behind a complete call": (sse(*PIECES, delta({}, "length")), ONE),
    "a malformed call": (sse(delta({"content": ""}, "MALFORMED_FUNCTION_CALL")), {"calls": [], "text": ""}),
    # calls in pieces
    "a call in pieces": (sse(*PIECES, STOP), ONE),
    "the name in each piece": (sse(piece(A[:5], index=0), piece(A[5:], index=0), STOP), ONE),
    "the name in pieces": (sse(piece("", "re", index=0), piece(A, "ad", index=0), STOP), ONE),
    "the name in growing pieces": (sse(piece("", "re", index=0), piece(A, "read", index=0), STOP), ONE),
    "all of a call once more": (sse(piece(A, index=0, id="1"), piece(A, index=0, id="1"), STOP), ONE),
    "an empty object first": (sse(piece("{}", index=0, id="1"), piece(A, None, index=0), STOP), ONE),
    "index 0 for each call": (sse(piece(A, index=0, id="1"), piece(B, index=0, id="2"), STOP), TWO),
    "no index": (sse(piece(A, id="1"), piece(B, id="2"), STOP), TWO),
    "index null": (sse(piece(A, index=None), piece(B, index=None), STOP), TWO),
    "halves of a character": (
        b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\ndata: {"choices": [{"delta": '
        b'{"content": "\\ude00"}, "finish_reason": "stop"}]}\n\n', {"calls": [], "text": "\U0001f600"}),
    # numbers
    "numbers as text": (sse(*HELLO, STOP, {"choices": [], "usage": {"prompt_tokens": "100", "completion_tokens": 20.0}}),
                        BLUE),
    "numbers in each event": (sse(*({**each, "usage": USAGE} for each in HELLO), STOP), BLUE),
    "numbers that are none": (sse(*HELLO, STOP, {"choices": [], "usage": {"prompt_tokens": [], "completion_tokens": -1}}),
                              BLUE),
    "raw controls in a text": (b'{"choices": [{"message": {"content": "It is\tblue."}}]}',
                               {"calls": [], "text": "It is\tblue."}),
    # errors
    "an error as text": (sse({"error": "upstream overloaded"}), Again()),
    "an error in an answer": (b'{"error": {"message": "model is loading", "code": 503}}', Again()),
    "an error that stays": (b'{"error": {"message": "no such voice", "type": "invalid_request_error"}}', Told("no such voice")),
    "an error in the middle": (sse(*HELLO, {"error": {"message": "the GPU is lost"}}), Told("the GPU is lost", paid=True)),
    "an error of a choice": (
        sse({"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "bad"}}]}), Again()),
    "an event of errors": (b'event: error\ndata: {"message": "no credit is left"}\n\n', Told("no credit is left")),
    "an error of a gateway": (
        b'{"error": {"message": "Provider returned error", "code": 402, "metadata": {"raw": "it is too hot"}}}',
        Told("Provider returned error: it is too hot")),
    "the detail of FastAPI": (b'{"detail": [{"loc": ["body", "n"], "msg": "field required"}]}', Told("body.n: field required")),
    "errors of Cloudflare": (b'{"success": false, "errors": [{"code": 7003, "message": "no route"}]}', Told("no route")),
    "a message alone": (b'{"message": "Unauthorized"}', Told("Unauthorized")),
    "base_resp": (b'{"base_resp": {"status_code": 1004, "status_msg": "login fail"}, "choices": null}', Told("login fail")),
    "a web page": (b"<!doctype html><html><head><title>Sign in</title></head></html>", Told("a web page.*Sign in")),
    "a text": (b"no healthy upstream", Again()),
    "another text": (b"It works!", Told("the answer is no reply: It works!")),
    "no choices": (b'{"choices": []}', Told("the answer has no reply", paid=True)),
    "a list": (b"[1, 2]", Told("the answer has no reply", paid=True)),
    "a part that is no JSON": (sse(*HELLO, '{"choices": [}', STOP), Told("a part of the answer is no JSON", paid=True)),
    "a refusal": (sse(delta({"refusal": "I cannot help."}, "stop")), Told("the model refuses: I cannot help", paid=True)),
    "the filter": (sse(*HELLO, delta({}, "content_filter")), Told("filter withheld", paid=True)),
    "the filter of Gemini": (sse(delta({"content": ""}, "SAFETY"), LAST), Told("filter withheld", paid=True)),
    "deep nesting": (b"[" * 100_000, Again(paid=True)),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "outcome"), BYTES.values(), ids=BYTES.keys())
@pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
async def test_bytes_become_a_reply_or_a_clear_error_or_another_attempt(
    llm_server, asked, raw, outcome, native
):
    for kind in ("text/event-stream", "text/plain; charset=utf-8"):
        before = llm_server.count
        llm_server.queue(Answer(raw=raw, headers={"Content-Type": kind}))
        llm_server.always(lambda body: Answer(raw=GOOD, headers=PLAIN))
        if isinstance(outcome, Told):
            with pytest.raises(ProviderError, match=outcome.words) as error:
                await asked(native)
            assert bool(error.value.usage) == outcome.paid
            assert llm_server.count == before + 1, "it is not tried again"
            continue
        read, used = await asked(native)
        if isinstance(outcome, Again):
            assert (read, llm_server.count) == (BLUE, before + 2)
            assert used.calls == 1 + outcome.paid, "what may have been paid is charged"
        else:
            assert ({**read, "text": read.get("text", "")}, llm_server.count) == (outcome, before + 1)


async def test_thinking_is_heard_and_is_no_part_of_the_reply(llm_server, make_ask):
    heard: list[str] = []
    llm_server.queue(
        Answer(raw=sse(delta({"reasoning_content": "Is it? "}), delta({"reasoning": "Yes."}), *HELLO, STOP))
    )
    model = OpenAI("openai/m", native=True, api_base=llm_server.url)
    reply = await model.answer(make_ask("turn", tools=(READ,), messages=SAID, on_thinking=heard.append))
    assert "".join(heard) == "Is it? Yes."
    assert json.loads(reply.text) == BLUE


async def test_an_answer_may_be_packed_and_its_type_be_wrong(llm_server, asked):
    for headers in ({"Content-Encoding": "gzip"}, {}):
        llm_server.queue(Answer(raw=gzip.compress(GOOD), headers={**headers, "Content-Type": "image/png"}))
        assert (await asked(True))[0] == BLUE


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("functions.read", "read"),
        ("functions.read:0", "read"),
        ("read<|channel|>commentary", "read"),
        ("default_api.read", "read"),
        ("`read`", "read"),
        ("tools:read", "read"),
        ("read()", "read"),
        ("github-list-issues", "github-list-issues"),
    ],
)
async def test_what_stands_around_the_name_of_a_tool_is_no_part_of_it(llm_server, asked, name, bare):
    from kernel.asking.turn import TURN, typed

    llm_server.queue(Answer(calls=((name, A),)))
    read, _ = await asked(True)
    assert typed(TURN, read).calls[0].tool == bare


async def test_a_mark_that_cannot_be_read_is_no_answer(llm_server, asked):
    llm_server.say('<tool_call>\n{"name": "read", "arguments": {"path"\n</tool_call>')
    read, _ = await asked(True)
    assert [each["bad"][:11] for each in read["calls"]] == ["<tool_call>"]
    for said in ("Write `<tool_call>{}</tool_call>` there.", f"So:\n```\n{DEEPSEEK[:12]}\n```\nis one."):
        llm_server.say(said)
        assert (await asked(True))[0] == {"calls": [], "text": said}


@pytest.mark.parametrize("wrote", [f"<function=read>{A}</function>", f"<function=read{A}</function>"])
async def test_what_a_server_could_not_read_of_its_model_is_the_reply(llm_server, asked, wrote):
    llm_server.fail(400, "Failed to call a function", failed_generation=wrote)
    assert (await asked(True))[0] == ONE
    assert llm_server.count == 1


async def test_what_its_model_wrote_in_vain_of_a_form_leaves_the_form_out(llm_server, asked):
    llm_server.fail(400, "Failed to validate JSON", code="json_validate_failed", failed_generation="Sure! {")
    llm_server.say(OBJECT)
    assert (await asked(False))[0] == ONE
    assert "response_format" in llm_server.bodies[0] and "response_format" not in llm_server.bodies[1]


USED: dict[str, tuple[dict[str, Any], tuple[int, int, float]]] = {
    "plain": ({"prompt_tokens": 1000, "completion_tokens": 100}, (1000, 100, 0.002)),
    "thinking among the completion": (
        {"prompt_tokens": 1000, "completion_tokens": 100, "completion_tokens_details": {"reasoning_tokens": 80}},
        (1000, 100, 0.002),
    ),
    "thinking beside the completion": (
        {"prompt_tokens": 1000, "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 80}},
        (1000, 100, 0.002),
    ),
    "Gemini": ({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 4100}, (1000, 3100, 0.032)),
    "cached": (
        {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": "800"}},
        (1000, 100, 0.00128),
    ),
    "DeepSeek": (
        {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_cache_hit_tokens": 800},
        (1000, 100, 0.00128),
    ),
    "Anthropic": (
        {"input_tokens": 100, "output_tokens": 100, "cache_read_input_tokens": 800,
         "cache_creation_input_tokens": 100},
        (1000, 100, 0.00128),
    ),
    "more cached than sent": ({"prompt_tokens": 10, "completion_tokens": 0, "cached_tokens": 10**30}, (10, 4, 0.000041)),
    "a number too large": ({"prompt_tokens": 10, "completion_tokens": 1e300}, (10, 10**9, 10_000.00001)),
}  # fmt: skip


@pytest.mark.parametrize(("used", "expected"), USED.values(), ids=USED.keys())
@pytest.mark.parametrize("streams", [True, False])
async def test_all_that_was_used_is_charged(llm_server, asked, used, expected, streams):
    raw = sse(*HELLO, STOP, {"choices": [], "usage": used})
    if not streams:
        raw = json.dumps({"choices": [{"message": text("It is blue.")}], "usage": used}).encode()
    llm_server.queue(Answer(raw=raw))
    _, charged = await asked(True, price=Price(1, 10, cached=0.1))
    assert (charged.prompt_tokens, charged.completion_tokens) == expected[:2]
    assert charged.usd == pytest.approx(expected[2])


UPSTREAM = {"cost_details": {"upstream_inference_cost": 0.04}}
"""What OpenRouter says where the provider behind it charges a key of the user's own."""


@pytest.mark.parametrize(
    "cost",
    [
        {"cost": 0.0421},
        {"cost": "0.0421"},
        {"cost": {"total_cost": 0.0421}},
        {"cost": 0.0021, "is_byok": True, **UPSTREAM},
        {"cost": 0.0421, "is_byok": False, **UPSTREAM},
    ],
)
async def test_the_bill_of_a_server_is_its_cost_unless_a_price_is_set(llm_server, asked, cost):
    llm_server.always(lambda body: Answer(raw=sse(*HELLO, STOP, {"choices": [], "usage": {**USAGE, **cost}})))
    assert (await asked(True, price=None))[1].usd == pytest.approx(0.0421)
    assert (await asked(True, price=Price(1, 10)))[1].usd == pytest.approx(0.0003)


async def test_a_discarded_answer_is_charged_beside_the_next_one(llm_server, asked):
    llm_server.queue(
        Answer(raw=sse(*HELLO, {**delta({}), "usage": USAGE}, {"error": "overloaded"})), Answer(raw=GOOD)
    )
    _, used = await asked(True)
    assert (used.calls, used.prompt_tokens, used.completion_tokens) == (2, 200, 40)


async def test_an_answer_that_costs_nothing_by_its_server_has_that_price(llm_server, asked):
    llm_server.queue(Answer(raw=sse(*HELLO, STOP, {"choices": [], "usage": {**USAGE, "cost": 0}})))
    assert (await asked(True, price=None))[1].usd == 0
