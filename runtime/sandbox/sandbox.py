"""Where commands run: in a process group of their own, within limits, inside bubblewrap.

The system holds limits for each process: CPU seconds, memory of its own (RLIMIT_DATA; not RLIMIT_AS, which
node, Go and Java exceed from the start), size of a file; in the sandbox also the number of processes, and the
size of each folder in memory. The group as a whole is held by the time limit, by who watches what it takes
(`limits`) and, in the sandbox, by its own process namespace, which dies with the command.
Without the sandbox a process that leaves its group (setsid) outlives the command until its CPU seconds end.
"""

from __future__ import annotations

import functools
import math
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernel.errors import ConfigurationError, OperationFailed
from runtime import pinned
from runtime.own import why_own
from runtime.sandbox.bubblewrap import clear, enclosed, home, refused
from runtime.sandbox.limits import Limits, Watch
from runtime.sandbox.privileges import no_setuid
from runtime.sandbox.process import CommandResult, Lifeline, supervise
from runtime.sandbox.programs import program, run

RESULT_BYTES = 32_000
"""The longest result of a step that a command gets as an environment variable; it gets each as a file."""
NPROC = 4_096
"""The system's limit on processes: older kernels count all of the user's, and none limits root."""
_LIMITED = (
    'for limit in $1; do ulimit "-${limit%%=*}" "${limit#*=}" 2>/dev/null; done; shift; '
    'exec "$@"'  # a hard limit that is lower already stays as it is
)
_SHELL = ("bash", "-o", "pipefail", "-c")
"""How a line of bash is run: `pytest | tail` fails where pytest does."""
_CUT_OFF = 128 + signal.SIGPIPE
_OFF = "or set `sandbox: off` in fractal.yaml to run commands without a sandbox"


@dataclass(frozen=True)
class Lasting:
    """A program that goes on, ready to be started; `begun` is to be called once it is."""

    words: Sequence[str]
    env: Mapping[str, str]
    pass_fds: Sequence[int]
    begun: Callable[[], None]


class Sandbox:
    """Where commands run. `auto` is bubblewrap and fails closed; `off` must be asked for.

    `network` allows commands the network, where a call of `run` says nothing else of its own.
    """

    def __init__(self, mode: str = "auto", network: bool = False, limits: Limits | None = None) -> None:
        if mode not in ("auto", "bwrap", "off"):
            raise ConfigurationError(f"sandbox: {mode!r} is none of auto, bwrap, off")
        self.mode = "off" if mode == "off" else "bwrap"
        self.network = network
        self.limits = limits or Limits()

    def available(self, folder: Path | None = None) -> str | None:
        """None if commands can run in `folder`; else why not, and how to fix it. Tested once per process."""
        folder = folder or Path.cwd()
        try:
            bash = program("bash", folder)
            if bash is None:
                return "bash is not installed, so no command can run; install bash"
            return None if self.mode == "off" else _why_unavailable(program("bwrap", folder), bash)
        except ConfigurationError as error:
            return str(error)

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        folder: Path,
        stdin: str | None = None,
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
        protected: Sequence[Path] = (),
        visible: Sequence[Path] = (),
        private: Sequence[Path] = (),
        mounts: Mapping[Path, Path] | None = None,
        results: Mapping[int, str] | None = None,
        read_only: bool = False,
        network: bool | None = None,
        copy: Path | None = None,
        lent: Sequence[Path] = (),
        executed: Sequence[Path] = (),
        output_chars: int = 1_000_000,
    ) -> CommandResult:
        """Run a program (a list) or a line of bash (a string) in `folder`, for `timeout` seconds at most.

        `protected` are absolute paths that stay read-only beside `PROTECTED`; `read_only` makes the
        whole folder so (neither holds in mode `off`). `visible` are folders elsewhere that it may read;
        `private` are folders that are empty for it, except what is `visible` in them. `mounts` are absolute
        places in `folder` where it sees another folder (not in mode `off`). `results` of steps by number are
        its variables `RESULT_N`, up to `RESULT_BYTES`, and its files `RESULT_N_FILE`. `copy` is what it sees
        and may change in the place of `folder`, except the `lent` paths, which are the folder's own and
        read-only (not in mode `off`). What Python has compiled in `executed` folders is not used. Output over
        `output_chars` keeps head and tail. Raises `ConfigurationError` where the sandbox does not work,
        `OperationFailed` for a command that cannot be started. Cancelling stops every process first.
        """
        folder = folder.resolve()
        if why := self.available(folder):
            raise ConfigurationError(why)
        if not folder.is_dir():
            raise OperationFailed(f"{folder}: there is no such folder to run a command in")
        words = [*_SHELL, command] if isinstance(command, str) else list(command)
        bash = program("bash", folder) or "bash"
        if words[0] == "bash":
            words[0] = bash
        if caches := [each for place in executed for each in pinned.caches(place)]:
            if self.mode == "off":
                env = {**(env or {}), "PYTHONPYCACHEPREFIX": os.devnull}
            private = (*private, *caches)
        began = time.monotonic()
        undone: list[str] = []
        with ExitStack() as stack:
            if results:
                variables, place = _results(stack, results, command if isinstance(command, str) else "")
                env, visible = {**(env or {}), **variables}, (*visible, place)
            lifeline = Lifeline(stack, bash) if self.mode != "off" else None
            words = [*self._limits(bash, timeout, lifeline), *words]
            if self.mode != "off":
                bwrap = program("bwrap", folder) or "bwrap"
                enclosure = stack.enter_context(
                    enclosed(
                        folder,
                        protected,
                        visible,
                        read_only=read_only,
                        network=self.network if network is None else network,
                        environ=os.environ,
                        private=private,
                        mounts=mounts,
                        copy=copy,
                        lent=lent,
                        scratch_mb=self.limits.scratch_mb if _has_size_option(bwrap, bash) else 0,
                        command=command if isinstance(command, str) else shlex.join(command),
                    )
                )
                undone = enclosure.undone
                words = [bwrap, *enclosure.arguments, "--", *words]
            ended = await supervise(
                words,
                folder=folder,
                env=_environment(env, self.mode, folder),
                stdin=stdin,
                timeout=timeout,
                limit=output_chars,
                bubblewrap=self.mode != "off",
                refused=no_setuid(),
                watch=Watch(self.limits, folder),
                lifeline=lifeline,
            )
        code = 0 if isinstance(command, str) and _only_cut_off(command, ended.exit) else ended.exit
        if not ended.started:
            raise OperationFailed(f"the sandbox could not be set up: {ended.output.strip()}")
        output = ended.output
        if code and self.mode != "off":
            undone += refused(folder, output)
        if undone:
            output = "\n".join([output.removesuffix("\n"), *(f"[{line}]" for line in undone)])
        seconds = time.monotonic() - began
        return CommandResult(code, output, ended.timed_out, ended.cut, self.mode, seconds)

    @contextmanager
    def lasting(
        self,
        words: Sequence[str],
        *,
        folder: Path,
        start_in: Path,
        env: Mapping[str, str],
        protected: Sequence[Path] = (),
        visible: Sequence[Path] = (),
        private: Sequence[Path] = (),
        read_only: bool = False,
        network: bool = False,
    ) -> Generator[Lasting]:
        """What starts a program that goes on, such as a server, inside the sandbox, whatever `mode` says.

        The rest is as for `run`. What it leaves on disk for the program goes when the context ends. `env` is
        set inside: a variable that loads code loads it there. Raises `ConfigurationError` where the sandbox
        does not work.
        """
        bwrap, bash = program("bwrap", folder), program("bash", folder) or "bash"
        if why := _why_unavailable(bwrap, bash):
            raise ConfigurationError(why)
        assert bwrap
        if any("\0" in each or "=" in name for name, text in env.items() for each in (name, text)):
            raise ConfigurationError("a variable of the environment has NUL, or = in its name")
        with ExitStack() as stack:
            lifeline = Lifeline(stack, bash)
            given = stack.enter_context(tempfile.TemporaryFile())
            given.write(b"".join(f"--setenv\0{name}\0{text}\0".encode() for name, text in env.items()))
            given.seek(0)
            enclosure = stack.enter_context(
                enclosed(
                    folder.resolve(),
                    protected,
                    visible,
                    read_only=read_only,
                    network=network,
                    environ={**os.environ, **({"PATH": env["PATH"]} if "PATH" in env else {})},
                    private=private,
                    scratch_mb=self.limits.scratch_mb if _has_size_option(bwrap, bash) else 0,
                    lasting=True,
                )
            )
            # the values of variables may be secret, and anybody on the machine sees the words of a process
            options = ["--args", str(given.fileno()), *enclosure.arguments, "--chdir", str(start_in)]
            words = [bwrap, *options, "--", *self._limits(bash, math.inf, lifeline), *words]
            yield Lasting(
                lifeline.watched(words),
                _environment(None, "bwrap", folder),
                (given.fileno(), lifeline.passed),
                lambda: lifeline.answer(stack),
            )

    def why_not_written(self, target: Path, folder: Path) -> str:
        """Why no run may change a path in `folder`, as Fractal itself runs from there; "" if it may."""
        return why_own(target, folder)

    def why_not_executed(self, folder: Path) -> str:
        """What has changed in a folder of files to execute since a person allowed them; "" if nothing."""
        return pinned.why_not(folder)

    def clear(self, folder: Path, protected: Sequence[Path]) -> None:
        """Remove what a command with a dead supervisor left in `folder` (resolved)."""
        clear(folder, protected)

    def _limits(self, bash: str, timeout: float, lifeline: Lifeline | None) -> list[str]:
        """The words that ask over the lifeline, set the limits and become the command that follows them."""
        limits = {
            "c": 0,  # no core files
            "d": self.limits.process_mb * 1024,
            "f": self.limits.file_mb * 1024,
        }
        if math.isfinite(timeout):
            limits["t"] = math.ceil(timeout * (os.cpu_count() or 1)) + 5
        if lifeline is not None:
            limits["u"] = NPROC
        listed = " ".join(f"{name}={value}" for name, value in limits.items())
        if lifeline is None:
            return [bash, "-c", _LIMITED, "limits", listed]
        return [bash, "-c", lifeline.ASK + _LIMITED, "limits", str(lifeline.passed), listed]


def _only_cut_off(command: str, code: int) -> bool:
    """Whether a command failed only because a reader in its last pipe needed no more, as in `yes | head -1`.

    A pipe that comes earlier may have kept the rest from being run: then this cannot be told.
    """
    if code != _CUT_OFF:
        return False
    ends = r"&&|\|\||;|\n" if re.search(r"\bset\s+-\w*e|errexit", command) else r"&&|\|\|"
    *earlier, last = re.split(ends, command)
    return "|" in last and not any("|" in each for each in earlier)


def _results(stack: ExitStack, results: Mapping[int, str], command: str) -> tuple[dict[str, str], Path]:
    """The variables that pass results to a command, and the folder of their files."""
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fractal-results-")))
    variables: dict[str, str] = {}
    for n, text in results.items():
        raw = text.encode("utf-8", "surrogatepass")
        file = place / str(n)
        file.write_bytes(raw)
        variables[f"RESULT_{n}_FILE"] = str(file)
        if len(raw) <= RESULT_BYTES and "\0" not in text:
            variables[f"RESULT_{n}"] = text
        elif re.search(rf"\bRESULT_{n}\b", command):
            raise OperationFailed(
                f'"$RESULT_{n}": the result of step {n} has {len(raw)} bytes and a variable at most '
                f'{RESULT_BYTES} without NUL; read it from the file "$RESULT_{n}_FILE"'
            )
    return variables, place.resolve()


def entries_inside(variable: str, folder: Path) -> list[Path]:
    """The entries of a search path in the user's environment that lie in the folder of the command."""
    entries = [each for each in os.environ.get(variable, "").split(os.pathsep) if each]
    paths = [Path(os.path.abspath(each)) for each in entries]  # noqa: PTH100 (what a link says stays)
    real = folder.resolve()
    inside = [path if path.is_relative_to(folder) else path.resolve() for path in paths]
    return [path for path in inside if path.is_relative_to(folder) or path.is_relative_to(real)]


def _environment(extra: Mapping[str, str] | None, mode: str, folder: Path) -> dict[str, str]:
    """The environment of every command, without secrets."""
    searched = os.pathsep.join(map(str, entries_inside("PYTHONPATH", folder)))
    return {
        **({"PYTHONPATH": searched} if searched else {}),
        "PATH": os.environ.get("PATH", os.defpath),
        # Python compares compiled files by size and second: after a quick edit it would run the old code
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home() if home().is_dir() else Path("/tmp")),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "TERM": "dumb",
        "TMPDIR": tempfile.gettempdir() if mode == "off" else "/tmp",
        **(extra or {}),
    }


@functools.cache
def _has_size_option(bwrap: str, bash: str) -> bool:
    """Whether bubblewrap can limit a folder in memory; not before 0.7 or with setuid."""
    return not _start_error(bwrap, "--perms", "1777", "--size", "4096", "--tmpfs", "/tmp", bash)


@functools.cache
def _why_unavailable(bwrap: str | None, bash: str) -> str | None:
    if bwrap is None:
        return (
            "bubblewrap is not installed, so commands cannot run in a sandbox; install it "
            f"(`apt-get install bubblewrap`, `dnf install bubblewrap`), {_OFF}"
        )
    own = ("--dev", "/dev", "--proc", "/proc", "--unshare-all", "--new-session", "--cap-drop", "ALL")
    if not (why := _start_error(bwrap, *own, bash)):
        return None
    return (
        f"bubblewrap does not work here ({why}); allow it user namespaces "
        f"(`sysctl kernel.unprivileged_userns_clone=1`, or its AppArmor profile), {_OFF}"
    )


def _start_error(bwrap: str, *words: str) -> str:
    """What prevents bubblewrap from running bash, the last word, with these arguments; "" for nothing."""
    trial = [bwrap, "--ro-bind", "/", "/", *words, "-c", ":"]
    try:
        tried = run(trial, Path("/"), timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (
        (tried.stderr.decode("utf-8", "replace").strip() or "it gave no reason") if tried.returncode else ""
    )
