"""A process that has imported Fractal and the faults, and forks a `fractal` command for each request.

Requests are JSON lines on standard input: `words` (of the command), `environ`, `at`, `match` and `where` (the
fault), `every` (log all calls), `out` (a prefix of files), `kill` (seconds until SIGKILL; 0: none), `imports`
(a file for the names of imported modules; `import` alone reads such a file), `fresh` (a new interpreter
instead of the fork, without faults). The reply has the exit code, the seconds and the calls.

This process adopts the children of a dead command and waits for them. Those that do not end are killed and
counted as `left`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from bench.crash import faults

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
PATIENCE = 5.0
"""Seconds for the children of a dead command to end."""
LONGEST = 60.0
"""Seconds after which a command counts as hung."""
WARM = frozenset(
    ("kernel", "runtime", "litellm", "openai", "httpx", "httpcore", "anyio", "tiktoken", "yaml", "click")
)
"""Packages to import before a command begins."""


def main() -> None:
    """Serve requests until standard input ends."""
    faults.install()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        request = json.loads(line)
        if "import" in request:
            _import(Path(request["import"]))
            print("{}", flush=True)
        else:
            print(json.dumps(_serve(request)), flush=True)


def _import(names: Path) -> None:
    """Import what an earlier command had imported, so that the next ones start faster."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise its import makes a request
    for name in names.read_text("utf-8").split():
        if name.partition(".")[0] in WARM:
            with suppress(Exception):  # some modules exist only in the process that created them
                import_module(name)
    gc.collect()
    gc.freeze()


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    log = Path(f"{request['out']}.calls")
    began = time.monotonic()
    child = os.fork()
    if not child:
        _become(request, log)
    kill = float(request["kill"])
    status = _await(child, began + (kill or LONGEST))
    hung = False
    if status is None:
        hung = not kill
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    calls = log.read_text("utf-8", "replace").splitlines()
    code = os.waitstatus_to_exitcode(status)
    return {"exit": code, "seconds": seconds, "calls": calls, "left": _reap(), "hung": hung}


def _await(child: int, until: float) -> int | None:
    """The status of the child when it has ended; None after a timeout."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        left = until - time.monotonic()
        if left <= 0:
            return None
        signal.sigtimedwait({signal.SIGCHLD}, left)


def _reap() -> int:
    """Wait for adopted processes; returns how many had to be killed."""
    until, killed = time.monotonic() + PATIENCE, 0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return killed
        if pid:
            continue
        if time.monotonic() > until:
            for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split():
                os.kill(int(each), signal.SIGKILL)
                killed += 1
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)


def _become(request: dict[str, Any], log: Path) -> NoReturn:
    """In the forked process: run `python -m runtime.cli` with these words."""
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for handle, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, f"{request['out']}.out", create),
            (2, f"{request['out']}.err", create),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, handle)
            os.close(opened)
        logged = os.open(log, create | os.O_APPEND, 0o600)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (open as long as the process)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.environ.update(request["environ"])
        sys.argv = ["fractal", *request["words"]]
        match, every = request["match"], request["every"]
        faults.arm(request["at"], request["where"], logged, every=every, match=match)
        if request.get("fresh"):
            os.execv(sys.executable, [sys.executable, "-m", "runtime.cli", *request["words"]])
        runpy.run_module("runtime.cli", run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    if names := request.get("imports"):
        Path(names).write_text("\n".join(sorted(sys.modules)), "utf-8")
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
