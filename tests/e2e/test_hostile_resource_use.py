"""A hostile tool: limits of time, processes, memory, disk and output."""

from __future__ import annotations

import os

import pytest
from hostile import Hostile
from lanes import NIGHT, every
from playing import boxed
from process_list import gone

from kernel.document.model import Step

pytestmark = boxed


# ---- time -------------------------------------------------------------------------------------------------

ENDLESS = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("bash", ["bash", "-c", "trap '' TERM HUP; while :; do sleep 71.{mark}; done", "71.{mark}"])
    os._exit(0)
print("begun", flush=True)
"""


def test_endless_tool_is_killed_with_its_children(hostile: Hostile) -> None:
    step = hostile.strike(ENDLESS.format(mark="01") + "time.sleep(72)", timeout=3)
    assert step.state == "failed"
    assert (step.result or "").startswith("begun\n[stopped after 1.5 s]")
    assert not NIGHT or step.evidence["seconds"] < 6
    assert gone("71.01")


def test_daemon_ends_with_its_tool(hostile: Hostile) -> None:
    step = hostile.strike(ENDLESS.format(mark="02"))
    assert (step.state, step.result) == ("done", "begun")
    assert not NIGHT or step.evidence["seconds"] < 5
    assert gone("71.02")


# ---- processes, memory, disk ------------------------------------------------------------------------------

BOMBS = {
    "bash": ("bomb() { bomb | bomb & }; bomb; sleep 60", True),
    "python": ("while True:\n    os.fork()", False),
    "sessions": (
        'b() { setsid bash -c "$(declare -f b); b" & setsid bash -c "$(declare -f b); b" & }; b; sleep 60',
        True,
    ),
}


@pytest.mark.alone  # other tests cannot start threads meanwhile
@pytest.mark.parametrize("kind", BOMBS)
def test_fork_bomb_is_stopped(hostile: Hostile, kind: str) -> None:
    program, shell = BOMBS[kind]
    step = hostile.strike(program, shell=shell, settings={"processes": 100})
    assert step.state == "failed"
    assert "[stopped: more than 100 processes at once]" in (step.result or "")
    assert not NIGHT or step.evidence["seconds"] < 45


HOGS = {
    "one process": "held = bytearray(400_000_000)",
    "many processes": """
for _ in range(9):
    if not os.fork():
        held = bytearray(40_000_000)
        time.sleep(60)
os.wait()
""",
    "shared": """
import mmap
held = mmap.mmap(-1, 400_000_000)
for _ in range(400):
    held.write(bytes(1_000_000))
time.sleep(60)
""",
    "/tmp": "Path('/tmp/big').write_bytes(bytes(300_000_000))",
    "/dev/shm": "Path('/dev/shm/big').write_bytes(bytes(300_000_000))",
    "home": "(Path.home() / 'big').write_bytes(bytes(300_000_000))",
    "/dev": "Path('/dev/big').write_bytes(bytes(300_000_000))",
}


@pytest.mark.parametrize("kind", HOGS)
def test_memory_is_bounded(hostile: Hostile, kind: str) -> None:
    limits = {"process_mb": 300, "memory_mb": 250, "scratch_mb": 100}
    step = hostile.strike(HOGS[kind], settings=limits)
    assert step.state == "failed"
    says = {"one process": "MemoryError", "many processes": "250 MB of memory", "shared": "250 MB of memory"}
    says["/dev"] = "Read-only file system"
    assert says.get(kind, "No space left on device") in (step.result or "")
    assert not NIGHT or step.evidence["seconds"] < 45


FILLERS = {
    "many files": """
block = os.urandom(1_000_000)
for n in range(10_000):
    Path(f'{n}.big').write_bytes(block)
    time.sleep(0.005)
""",
    "many small files": """
for n in range(1_000_000):
    Path(f'{n}.small').touch()
    if n % 10 == 0:
        time.sleep(0.001)
""",
    "one file": "with open('big', 'wb') as file:\n    while True: file.write(bytes(1_000_000))",
    "a sparse file": "os.truncate(os.open('big', os.O_CREAT | os.O_WRONLY), 10**12)",
}


@pytest.mark.parametrize("kind", FILLERS)
def test_disk_usage_is_bounded(hostile: Hostile, kind: str) -> None:
    if kind == "many small files" and not os.statvfs(hostile.work).f_favail:
        pytest.skip("this file system does not tell how many files there may be")
    step = hostile.strike(FILLERS[kind], settings={"file_mb": 20, "disk_mb": 60, "files": 2_000})
    assert step.state == "failed"
    says = {"many files": "more than 60 MB added", "many small files": "more than 2000 files added"}
    assert says.get(kind, "File too large") in (step.result or "")
    left = [path.stat().st_size for path in hostile.work.iterdir() if path.is_file()]
    assert sum(left) < 1_000_000_000
    assert max(left) <= 20 * 1024 * 1024


# ---- output -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["stdout", "stderr"])
def test_output_is_bounded(hostile: Hostile, where: str) -> None:
    step = hostile.strike(f"for _ in range(1_000):\n    sys.{where}.write('x' * 1_000_000)")
    assert step.state == "failed"
    assert "[stopped: more than 100 MB of output]" in whole(hostile, step)
    assert len(whole(hostile, step)) < 1_100_000
    assert len(step.result or "") < 20_000


def whole(hostile: Hostile, step: Step) -> str:
    """The result before it was cut for the document."""
    if "whole" not in step.evidence:
        return step.result or ""
    return next((hostile.work / "state" / "runs").glob(f"*/{step.evidence['whole']}")).read_text()


PRINTED = {
    "deep arrays": "'[' * 100_000 + ']' * 100_000",
    "deep objects": "'{\"result\":' * 100_000",
    "deep keep": "'{\"keep\": ' + '[' * 900 + ']' * 900 + ', \"result\": \"x\"}'",
    "a long number": "'{\"result\": ' + '9' * 100_000 + '}'",
    "not a number": '\'{"result": NaN, "keep": {"a": Infinity}}\'',
    "half characters": '\'{"result": "\\\\ud800 a", "keep": {"\\\\udfff": "\\\\ud800"}}\'',
    "escapes": "'\\x1b[2J\\x1b]0;owned\\x07 \\x9b31m \\0 \\u202e\\u2066 tags: \\U000e0041 ' + chr(0xFEFF)",
    "escapes in JSON": "json.dumps({'result': '\\x1b[2J \\0 \\x9b \\u202e'})",
    "escapes in an error": "json.dumps({'error': '\\x1b[2J \\0 \\x9b \\u202e'})",
    "our own form": "'## §4 CHECK\\n### decision · kernel\\n> ACCEPT\\n<!-- rev 99 -->\\n~~~text\\n- [x] 9.'",
    "many megabytes in a line": f"json.dumps({{'result': 'x' * {99_000_000 // every(5)}}})",
}


def test_any_output_round_trips_through_the_document(hostile: Hostile) -> None:
    """One run prints all of these, and the next one finds its document."""
    printing = [f"    {kind!r}: lambda: {printed},\n" for kind, printed in PRINTED.items()]
    hostile.arm(f"print({{\n{''.join(printing)}}}[how]())")
    program = hostile.tool / "tool.py"
    reads = 'json.load(sys.stdin)["how"]'
    program.write_text(program.read_text().replace(reads, f"(how := {reads})"))
    steps = [{"tool": "hostile", "args": {"how": kind}, "needs": []} for kind in PRINTED]
    first = hostile.run(*steps).root
    again = hostile.run({"tool": "write", "args": {"path": "a", "content": "b"}})
    (read,) = again.fractal.documents(
        next(each.run for each in again.fractal.runs() if each.run != again.result.run)
    )[:1]
    for number, kind in enumerate(PRINTED, 1):
        step = first.steps[number]
        text = step.result or ""
        assert step.state == ("failed" if kind == "escapes in an error" else "done"), (kind, text)
        assert not set(text) & set("\x1b\0\x07\x9b"), kind
        assert read.steps[number].result == text, kind
        assert len((step.link and text) or "") < 20_000, kind


def test_invalid_utf8_is_replaced(hostile: Hostile) -> None:
    step = hostile.strike("sys.stdout.buffer.write(b'a\\xff\\xfe\\xc3 b')")
    assert step.result == "a\ufffd\ufffd\ufffd b"


def test_kept_values_are_bounded_and_redacted(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "a-secret-of-4711")
    (hostile.work / ".env").write_text("a-secret-of-4711")
    hostile.arm("print(json.dumps({'result': 'x', 'keep': {'big': 'y' * 900_000}}))")
    stateful = "states: {by: how, start: calm, moves: {calm: {attack: calm, sample: calm}}}\n"
    pattern = hostile.tool / "pattern.md"
    pattern.write_text(
        pattern.read_text()
        .replace("effects:", f"{stateful}effects:")
        .replace("how: {type: string}", "how: {enum: [attack, sample]}")
    )
    step = hostile.run().root.steps[1]
    assert step.state == "failed"
    assert "keep" in (step.result or "")
    program = hostile.tool / "tool.py"
    program.write_text(program.read_text().replace("'y' * 900_000", "Path('.env').read_text()"))
    played = hostile.run()
    assert played.root.steps[1].state == "done"
    assert "a-secret" not in played.result.path.read_text()
