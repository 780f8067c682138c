"""Starts Python programs as forks of a process that has everything imported; see warm.py.

`python warm_start.py serve SOCKET` is that process: for each request it forks one that runs the program, with
the streams, the folder and the environment that came with the request. It ends when its standard input does.

`python warm_start.py start SOCKET PROGRAM…` asks for a program with its own streams, passes signals on, and
exits as it does. It is for callers that can only start a command.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sqlite3
import sys
import tempfile
import termios
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SELDOM = ("gguf", "litellm", "llama", "llama_engine", "minilm", "sentence", "postgres", "__main__")
"""Modules that few programs need and that take long; a program imports them itself."""


SCRIPT = {
    "fused": {
        "task": "Write five into words.txt",
        "approach": "write the number",
        "confidence": "high",
        "steps": [{"tool": "write", "args": {"path": "words.txt", "content": "5\n"}}],
        "success": [{"file": "words.txt", "has": "5"}],
    }
}


def warm() -> None:
    """Import what `fractal` may import, and read once what it reads of the files it ships with."""
    from in_process import in_process

    import runtime

    for module in pkgutil.walk_packages(runtime.__path__, "runtime."):
        if module.name.rpartition(".")[2] not in SELDOM:
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "FRACTAL_EMBEDDER": "lexical", "FRACTAL_TRUST": "all"}
        env["XDG_CONFIG_HOME"] = folder
        place, name = Path(folder), "scripted:warm.json"
        (place / "warm.json").write_text(json.dumps(SCRIPT), "utf-8")
        for words in (["run", "-q", "-m", name, "frobnicate it"], ["show"], ["ls"], ["tree"]):
            assert in_process(place, words, env).exit == 0
    os.fsync = lambda fd: None  # as in the process of the tests
    gc.collect()
    gc.freeze()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with several threads cannot be forked"


def request(path: str, asked: Mapping[str, Any], fds: Sequence[int]) -> tuple[int, socket.socket]:
    """Ask for a program with these streams. Returns its process, and a connection for `ended`."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    socket.send_fds(line, [json.dumps(asked).encode() + b"\n"], list(fds))
    return int(_line(line)), line


def _line(line: socket.socket) -> bytes:
    got = b""
    while not got.endswith(b"\n"):
        more = line.recv(1)  # what follows is the next line: a program may have ended already
        if not more:
            raise EOFError("the process that starts others has ended")
        got += more
    return got


def ended(line: socket.socket) -> int:
    """Wait until the program has ended; returns its status as `waitpid` does."""
    return int(_line(line))


def start(path: str, command: Sequence[str]) -> None:
    asked = {"command": command, "cwd": str(Path.cwd()), "env": dict(os.environ), "owned": True}
    child, line = request(path, asked, (0, 1, 2))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    code = os.waitstatus_to_exitcode(ended(line))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(path: str) -> dict[str, Any]:
    """Answer requests; returns one in the process that was forked for it."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    print("ready", flush=True)
    children: dict[int, tuple[int, socket.socket, bool]] = {}
    while True:
        owners = {line.fileno(): pid for pid, line, owned in children.values() if owned}
        ready, _, _ = select.select([0, listening.fileno(), *children, *owners], [], [])
        for fd in ready:
            if fd == 0:
                os._exit(0)
            elif fd == listening.fileno():
                if asked := _begin(listening, children):
                    return asked
            elif fd in children:
                pid, line, _ = children.pop(fd)
                status = os.waitpid(pid, 0)[1]
                os.close(fd)
                with contextlib.suppress(OSError):  # nobody wants to know
                    line.sendall(f"{status}\n".encode())
                line.close()
            elif any(line.fileno() == fd for _, line, _ in children.values()):
                os.killpg(owners[fd], signal.SIGKILL)  # whoever asked was killed
                (own,) = [each for each, (_, line, _) in children.items() if line.fileno() == fd]
                children[own] = (*children[own][:2], False)


def _begin(listening: socket.socket, children: dict[int, tuple[int, socket.socket, bool]]) -> Any:
    line, _ = listening.accept()
    said, fds, _, _ = socket.recv_fds(line, 1 << 20, 3)
    while not said.endswith(b"\n"):
        said += line.recv(65536)
    asked = json.loads(said)
    waits, opened = os.pipe()
    pid = os.fork()
    if not pid:
        _become(asked, fds)  # closes all that is not the program's
        for each in (listening, line, *(each for _, each, _ in children.values())):
            each.detach()
        return asked
    for fd in (*fds, opened):
        os.close(fd)
    os.read(waits, 1)
    os.close(waits)
    children[os.pidfd_open(pid)] = pid, line, bool(asked.get("owned"))
    line.sendall(f"{pid}\n".encode())
    return None


def _become(asked: dict[str, Any], fds: Sequence[int]) -> None:
    if asked.get("session"):
        os.setsid()
    else:
        os.setpgid(0, 0)
    for n, fd in enumerate(fds):
        os.dup2(fd, n)
    if asked.get("terminal"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    for n, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(n, "wb" if n else "rb", closefd=False)
        raw.name = f"<{name}>"  # type: ignore[misc]
        buffer = io.BufferedWriter(raw) if n else io.BufferedReader(raw)
        lines = n == 2 or raw.isatty()
        stream = io.TextIOWrapper(buffer, old.encoding, old.errors, line_buffering=lines)
        stream.mode = "w" if n else "r"  # type: ignore[attr-defined]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.closerange(3, 4096)


def program(command: Sequence[str]) -> None:
    """Run what a Python interpreter would run with these arguments: `-c CODE …`, `-m MODULE …`, `FILE …`."""
    kind, *words = command
    sys.path[0] = ""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[1:1] = [each for each in given if each not in sys.path]
    if kind == "-c":
        sys.argv, sys.path[0] = ["-c", *words[1:]], ""
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), module.__dict__)
    elif kind == "-m":
        sys.argv, sys.path[0] = words, str(Path.cwd())
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = list(command), str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


def _code(command: Sequence[str]) -> int:
    try:
        program(command)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


def _end(code: int) -> None:
    """End as an interpreter does: databases that are open are closed; but no memory is freed."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for each in gc.get_objects():
        if isinstance(each, sqlite3.Connection):
            with contextlib.suppress(sqlite3.Error):  # it belongs to another thread
                each.close()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    os._exit(code & 0xFF)


def main() -> None:
    what, path, *command = sys.argv[1:]
    if what == "start":
        start(path, command)
    else:
        warm()
        _end(_code(serve(path)["command"]))


if __name__ == "__main__":
    main()
