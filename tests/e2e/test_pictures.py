"""Pictures go to models that see, from the document alone; elsewhere their kind and size are told."""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from llm_server import Answer
from pictures import gif, jpeg, png, webp
from playing import NO_SANDBOX, put
from processes import fractal, run_folder, running

from kernel.errors import Exit
from runtime.images import LARGEST, WIDEST, kind_of
from runtime.models.scripted import Scripted

DOT = png()
LINE = f"[image: image/png, 2×3 pixels, {len(DOT)} bytes]"
ALONE = {"check": "auto"}
SERVER = Path(__file__).parents[1] / "runtime/mcp/told_server.py"


def looks(*paths):
    """A model that reads these files in one turn, and is done."""

    def answer(ask):
        if any(each["role"] == "tool" for each in ask.messages):
            return {"done": "seen"}
        return {"calls": [{"tool": "read", "args": {"path": each}} for each in paths]}

    return Scripted(answer, sees=True)


def shown(messages):
    """The bytes of the pictures in a conversation."""
    return [b64decode(each["data"]) for message in messages for each in message.get("images", ())]


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (png(640, 480), "image/png", (640, 480)),
        (jpeg(640, 480, extra=60_000), "image/jpeg", (640, 480)),
        (gif(640, 480), "image/gif", (640, 480)),
        (webp("VP8 ", 640, 480), "image/webp", (640, 480)),
        (webp("VP8L", 640, 480), "image/webp", (640, 480)),
        (webp("VP8X", 640, 480), "image/webp", (640, 480)),
    ],
)
def test_the_kind_of_a_picture_is_told_by_its_bytes(data, kind, size):
    found = kind_of(data)
    assert (found.mime, (found.width, found.height)) == (kind, size)
    assert all(kind_of(data[:end]) in (None, found) for end in range(len(data) - 1, 0, -997))


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBPVP8?", b"BM00", png(0, 3)]
)
def test_other_bytes_are_no_picture(data):
    assert kind_of(data) is None


def test_a_model_that_sees_is_shown_the_picture_of_a_file(play, tmp_path):
    put(tmp_path / "work", "dot.png", DOT)
    model = looks("dot.png")
    played = play([model], "what is in dot.png?", settings=ALONE)
    assert played.result.output == "seen"
    messages = model.asks[-1].messages
    assert shown(messages) == [DOT]
    assert messages[-2]["content"] == LINE
    assert messages[-1]["content"] == "The picture of call_1:"
    (step,) = played.root.steps.values()
    (kept,) = step.evidence["images"]
    text = played.result.path.read_text()
    assert b64encode(DOT).decode()[:40] not in text, "the document has a reference"
    assert kept["file"] in text
    assert (played.folder / kept["file"]).read_bytes() == DOT


def test_a_model_that_sees_nothing_is_told_what_it_is(play, tmp_path):
    put(tmp_path / "work", "dot.png", DOT)
    model = looks("dot.png")
    model._sees = False
    play([model], "what is in dot.png?", settings=ALONE)
    messages = model.asks[-1].messages
    assert shown(messages) == []
    assert (
        messages[-1]["content"] == f"{LINE}\n[the picture itself is not shown: this model sees no pictures]"
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [(png(extra=LARGEST), "it has more than 3.75 MB"), (png(WIDEST + 1, 2), "it has more than 8,000 pixels")],
)
def test_a_picture_that_is_too_large_is_told(play, tmp_path, data, why):
    put(tmp_path / "work", "dot.png", data)
    model = looks("dot.png")
    play([model], "what is in dot.png?", settings=ALONE)
    assert shown(model.asks[-1].messages) == []
    assert f"[it is not shown: {why}" in model.asks[-1].messages[-1]["content"]
    assert f"{len(data):,} bytes" in model.asks[-1].messages[-1]["content"]


def test_of_many_pictures_of_a_turn_some_are_shown_and_the_others_told(play, tmp_path):
    names = [f"{n}.png" for n in range(6)]
    for n, name in enumerate(names):
        put(tmp_path / "work", name, png(n + 1))
    model = looks(*names)
    play([model], "what is in them?", settings=ALONE)
    messages = model.asks[-1].messages
    assert shown(messages) == [png(n + 1) for n in range(4)]
    assert messages[-1]["content"].splitlines() == [f"The picture of call_{n}:" for n in range(1, 5)]
    assert sum("look at this one in another turn" in str(each["content"]) for each in messages) == 2


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(png(9, 9))])
def test_a_picture_that_somebody_removed_is_told(play, tmp_path, change):
    put(tmp_path / "work", "dot.png", DOT)
    seen = []

    def answer(ask):
        seen.append(ask.messages)
        if len(seen) == 1:
            return {"calls": [{"tool": "read", "args": {"path": "dot.png"}}]}
        if len(seen) == 2:
            (kept,) = (tmp_path / "work/.fractal/state/runs").glob("*/artifacts/*.png")
            change(kept)
            return {"calls": [{"tool": "read", "args": {"path": "no.txt"}}]}
        return {"done": "gone"}

    play([Scripted(answer, sees=True)], "what is in dot.png?", settings=ALONE)
    assert (shown(seen[1]), shown(seen[2])) == ([DOT], [])
    (result,) = [each["content"] for each in seen[2] if each.get("tool_call_id") == "call_1"]
    assert result.startswith(f"{LINE}\n[the picture is gone: somebody has changed or removed ")


def test_a_run_that_was_killed_shows_the_same_conversation_again(tmp_path, llm_server):
    folder = tmp_path / "work"
    put(folder, "dot.png", DOT)
    call = Answer("", calls=(("read", '{"path": "dot.png"}'),))
    llm_server.queue(call, Answer("never", delay=60))
    settings = {"OPENAI_API_KEY": "k", "FRACTAL_API_BASE": llm_server.url, "FRACTAL_SEES": "true"}
    words = ("run", "--model", "openai/some-model", "quidditch improve dot.png")
    with running(folder, *words, **settings, FRACTAL_CHECK="auto"):
        llm_server.wait_for(2)
    (folder / "dot.png").unlink()  # the run has its own copy
    llm_server.queue(Answer("", calls=(("done", '{"answer": "a dot"}'),)))
    ran = fractal(
        folder,
        "resume",
        run_folder(folder).name,
        **settings,
        FRACTAL_CHECK="auto",
        FRACTAL_MODEL="openai/some-model",
    )
    assert (ran.returncode, ran.stdout) == (Exit.ACCEPTED, "a dot\n"), ran.stderr
    before, after = (body["messages"] for body in llm_server.bodies[1:3])
    assert json.dumps(before) == json.dumps(after)
    url = f"data:image/png;base64,{b64encode(DOT).decode()}"
    assert after[-1]["content"][-1] == {"type": "image_url", "image_url": {"url": url}}


def test_a_picture_of_a_server_is_shown_beside_its_text(play, tmp_path, monkeypatch):
    if NO_SANDBOX:
        pytest.skip(f"servers of a folder run in the sandbox: {NO_SANDBOX}")
    monkeypatch.setenv("FRACTAL_TRUST", "all")
    other = png(5, 5)
    content = [
        {"type": "text", "text": "two pictures"},
        {"type": "image", "data": b64encode(DOT).decode(), "mimeType": "image/jpeg"},
        {"type": "resource", "resource": {"uri": "a://b", "blob": b64encode(other).decode()}},
        {"type": "image", "data": "bm9uZQ==", "mimeType": "image/png"},
    ]
    tools = [{"name": "draw", "inputSchema": {"type": "object", "properties": {}}}]
    told = {"pages": {"": {"tools": tools}}, "answers": {"draw": {"content": content}}}
    put(tmp_path / "work", "told.json", json.dumps(told))
    entry = {"command": sys.executable, "args": [str(SERVER), "told.json"]}
    put(tmp_path / "work", ".mcp.json", json.dumps({"mcpServers": {"s": entry}}))

    def answer(ask):
        drawn = any(each["role"] == "tool" for each in ask.messages)
        return {"done": "seen"} if drawn else {"calls": [{"tool": "s-draw", "args": {}}]}

    model = Scripted(answer, sees=True)
    play([model], "quidditch improve it", settings=ALONE)
    messages = model.asks[-1].messages
    assert shown(messages) == [DOT, other]
    assert messages[-2]["content"].splitlines() == [
        "two pictures",
        LINE,
        f"[image: image/png, 5×5 pixels, {len(other)} bytes]",
        "[image: image/png, 4 bytes]",
    ]
