"""What --model takes."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernel.asking.responder import Reply
from kernel.errors import ConfigurationError
from kernel.store.call_log import ReplyLog
from runtime.models import make_responder
from runtime.models.prices import Price

needs_litellm = pytest.mark.skipif(find_spec("litellm") is None, reason="litellm is not installed")


def test_each_form_makes_its_responder(tmp_path):
    (tmp_path / "s.yaml").write_text("- {}")
    ReplyLog(tmp_path / "runs" / "abc123" / "calls.jsonl").replied(
        "system-abc123/1/plan/0/0/x", Reply("{}", "m")
    )
    for spec, kind in {
        f"scripted:{tmp_path}/s.yaml": "Scripted",
        "replay:abc123": "Replay",
        "mailbox": "Mailbox",
    }.items():
        general = {
            "timeout": 120.0,
            "api_base": "http://localhost:1",
            "price": {"input": 1, "output": 1},
        }
        responder = make_responder(spec, tier="oversight", settings=general, state=tmp_path)
        assert (type(responder).__name__, responder.tier) == (kind, "oversight")


@needs_litellm
def test_any_other_name_is_litellms(tmp_path):
    for spec in ("ollama/llama3", "anthropic/claude-sonnet-4-5", "ollama/llama3:8b", "mailbox/model"):
        responder = make_responder(spec, settings={"api_base": "http://localhost:1"}, state=tmp_path)
        assert (type(responder).__name__, responder.name) == ("LiteLLM", spec)


@needs_litellm
@pytest.mark.parametrize("price", [{"input": 1, "output": 2}, [1, 2]])
def test_a_price_may_be_given(tmp_path, price):
    assert make_responder("openai/x", settings={"price": price}, state=tmp_path).price == Price(1, 2)
    assert make_responder("openai/x", settings={"price": 0}, state=tmp_path).price == Price()
    assert make_responder("openai/x", state=tmp_path).price is None


@pytest.mark.parametrize(
    ("spec", "settings", "message"),
    [
        ("scripted:", {}, "scripted:FILE.yaml"),
        ("scripted:none.yaml", {}, "cannot be read"),
        ("replay:none", {}, "no such run"),
        ("llama:", {}, "llama:PATH.gguf"),
        ("mailbox", {"polll": 1}, "polll"),
        ("", {}, "no model is named"),
        ("openai/x", {"price": "cheap"}, "USD per million"),
    ],
)
def test_invalid_specs_are_reported(tmp_path, spec, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        make_responder(spec, settings=settings, state=tmp_path)


NAME = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kernel.errors import ConfigurationError
from runtime.models import make_responder
try:
    make_responder(sys.argv[2], state=Path("."))
except ConfigurationError as error:
    print(error)
"""


def test_a_missing_extra_is_named_and_nothing_heavy_is_imported(tmp_path):
    root = str(Path(__file__).parents[3])
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    for spec, extra in (
        ("anthropic/x", "fractal-runtime[llm]"),
        (f"llama:{tmp_path}/m.gguf", "fractal-runtime[local]"),
    ):
        command = [sys.executable, "-S", "-c", NAME, root, spec]  # -S: without what is installed
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert f"pip install '{extra}'" in done.stdout, done.stderr


def test_naming_a_model_imports_nothing_heavy(tmp_path):
    (tmp_path / "s.json").write_text("[]")
    code = (
        "import sys; from pathlib import Path; from runtime.models import make_responder\n"
        f"for spec in ('openai/gpt-4o', 'mailbox', 'scripted:{tmp_path}/s.json'):\n"
        "    try: make_responder(spec, state=Path('.'))\n"
        "    except Exception as error: assert 'pip install' in str(error), error\n"
        "print({'litellm', 'llama_cpp', 'tiktoken', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "set()", done.stderr
