"""Runs as traces of OpenTelemetry, as a collector on loopback gets them; and runs that reach nobody."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from collector import Collector
from playing import ACCEPT, plan, write
from processes import TASK, command, environment, root_of, script, stopped_in_child, until

from kernel.asking.responder import Ladder
from kernel.errors import ConfigurationError, Exit
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.telemetry import tracing
from runtime.workspace.trust import Untrusted

pytest.importorskip("opentelemetry.sdk")
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with Collector().running() as made:
        yield made
        tracing.finish()


def ran(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own, which sends what it has when it ends."""
    return subprocess.run(
        command(folder, *words), env=environment(**more), capture_output=True, text=True, check=False
    )


def write_a(folder: Path, collector: Collector | str, *, trace: str = "", **settings: Any) -> str:
    """Run a task of one call in this process; returns the run's id."""
    folder.mkdir(exist_ok=True)
    url = collector if isinstance(collector, str) else collector.url

    def answers(ask: Any) -> Any:
        return ACCEPT if ask.phase == "check" else plan(write("a.txt", "private words"))

    fractal = Fractal(
        folder,
        settings={"sandbox": "off", "check": "always", "otel": url, **settings},
        ladder=Ladder((Scripted(answers, "openai/gpt-x"),)),
    )
    return asyncio.run(fractal.run("write the words", trace=trace)).run


def test_a_run_that_was_killed_and_resumed_is_one_trace(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRACTAL_OTEL", collector.url)
    folder = tmp_path / "work"
    run = stopped_in_child(folder).name
    assert not collector.spans
    resumed = ran(folder, "resume", run, "--model", f"scripted:{script(tmp_path / 'fast.json')}")
    assert resumed.returncode == Exit.ACCEPTED, resumed.stderr
    root = root_of(folder)
    assert {span.trace_id.hex() for span in collector.spans} == {root.meta.extra["trace"].split("-")[1]}
    assert len({span.span_id for span in collector.spans}) == len(collector.spans)
    tree = collector.tree()
    assert sorted(each for each in tree if not each[1].startswith("chat")) == sorted(
        [
            ("-", "invoke_workflow"),
            ("invoke_workflow", "invoke_agent task"),
            ("invoke_agent task", "invoke_agent task"),
            *[("invoke_agent task", f"execute_tool {tool}") for tool in ("write", "write", "write", "read")],
        ]
    )
    chats = [parent for parent, name in tree if name.startswith("chat")]
    assert chats == ["invoke_agent task"] * 5  # two turns, three checks: the check that the kill met, twice
    (whole,) = collector.attributes("invoke_workflow")
    assert whole["gen_ai.conversation.id"] == run
    assert whole["fractal.status"] == root.meta.word
    assert whole["fractal.calls"] == root.meta.spent["calls"]
    by_id = {span.span_id: span for span in collector.spans}
    for span in collector.spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if above := by_id.get(span.parent_span_id):
            assert above.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= above.end_time_unix_nano
    assert [each["error.type"] for each in failed(collector)] == ["interrupted"]


def failed(collector: Collector) -> list[dict[str, Any]]:
    names = {span.name for span in collector.spans if span.status.code == 2}
    return [each for name in names for each in collector.attributes(name) if "error.type" in each]


def test_a_run_joins_the_trace_of_its_caller(tmp_path: Path, collector: Collector) -> None:
    run = write_a(tmp_path / "work", collector, trace=CALLER)
    until(lambda: len(collector.spans) == 5)
    _, trace, parent, _ = CALLER.split("-")
    assert {span.trace_id.hex() for span in collector.spans} == {trace}
    (whole,) = [span for span in collector.spans if span.name == "invoke_workflow"]
    assert whole.parent_span_id.hex() == parent
    (asked, _) = collector.attributes("chat openai/gpt-x")
    assert asked["gen_ai.provider.name"] == "openai"
    assert asked["gen_ai.usage.input_tokens"] > 0
    assert Fractal(tmp_path / "work").document(run).meta.extra["trace"] == CALLER


def test_a_fork_is_no_part_of_the_trace_of_its_original(tmp_path: Path, collector: Collector) -> None:
    run = write_a(tmp_path / "work", collector, trace=CALLER)
    fractal = Fractal(tmp_path / "work")
    assert "trace" not in fractal.document(fractal.fork(run)).meta.extra


def test_a_trace_that_its_caller_does_not_sample_is_not_sent(tmp_path: Path, collector: Collector) -> None:
    write_a(tmp_path / "unsampled", collector, trace=f"{CALLER[:-2]}00")
    run = write_a(tmp_path / "work", collector)
    until(lambda: collector.spans)
    assert {each["gen_ai.conversation.id"] for each in collector.attributes("invoke_workflow")} == {run}


def test_texts_are_only_sent_where_the_setting_says_so(tmp_path: Path, collector: Collector) -> None:
    write_a(tmp_path / "work", collector)
    until(lambda: len(collector.spans) == 5)
    assert not any(b"words" in span.SerializeToString() for span in collector.spans)
    collector.spans.clear()
    write_a(tmp_path / "work", collector, otel_content=True)
    until(lambda: len(collector.spans) == 5)
    (tool,) = collector.attributes("execute_tool write")
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"path": "a.txt", "content": "private words"}
    replies = [each["gen_ai.output.messages"] for each in collector.attributes("chat openai/gpt-x")]
    assert "private words" in json.loads(replies[0])[0]["parts"][0]["content"]


def test_a_collector_that_is_away_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    done = ran(tmp_path / "work", "run", "what is 2 + 2", FRACTAL_OTEL="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (Exit.ACCEPTED, "4\n")
    assert "spans were not sent: http://127.0.0.1:9/v1/traces" in done.stderr
    assert "Traceback" not in done.stderr and "retrying" not in done.stderr


def test_headers_of_the_environment_go_only_where_the_environment_says(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    write_a(tmp_path / "work", collector)
    until(lambda: collector.spans)
    assert not any("x-key" in each for each in collector.headers)
    assert os.environ["OTEL_EXPORTER_OTLP_HEADERS"] == "x-key=secret"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    write_a(tmp_path / "work", "env")
    until(lambda: any(each.get("x-key") == "secret" for each in collector.headers))


@pytest.mark.parametrize("settings", [{"otel": "http://127.0.0.1:9"}, {"otel_content": True}])
def test_a_folder_that_wants_traces_needs_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "fractal.yaml").write_text(json.dumps(settings))
    with pytest.raises(Untrusted, match="otel"):
        asyncio.run(Fractal(tmp_path).run("what is 2 + 2?"))


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'localhost:4318' is not env and no address"):
        Fractal(tmp_path, settings={"otel": "localhost:4318"})


WATCHED = """
import os, sys
def hook(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.bind"):
        with open(os.environ["TRIED"], "a") as file:
            print(event, args, file=file)
        raise OSError("the network is refused")
sys.addaudithook(hook)
"""


def test_a_whole_run_reaches_nobody(tmp_path: Path) -> None:
    """Neither by itself, nor because the environment names a collector for other programs."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCHED)
    folder, tried = tmp_path / "work", tmp_path / "tried"
    folder.mkdir()
    more = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "watch"), *filter(None, sys.path)]),
        "TRIED": str(tried),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    }
    model = f"scripted:{script(tmp_path / 'fast.json')}"
    done = ran(folder, "run", "--model", model, TASK, **more)
    assert (done.returncode, done.stdout) == (Exit.ACCEPTED, "all done\n"), done.stderr
    assert ran(folder, "dream", **more).returncode == Exit.ACCEPTED
    assert not tried.exists(), tried.read_text()
    seen = subprocess.run(
        [sys.executable, "-c", "import socket; socket.getaddrinfo('example.com', 80)"],
        env=environment(**more),
        capture_output=True,
        check=False,
    )
    assert seen.returncode and tried.exists()  # the watch works
