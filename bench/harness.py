"""What the benchmarks share: data sets, embedders, measuring, tables and output."""

from __future__ import annotations

import csv
import gc
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kernel.asking.responder import estimate_tokens
from kernel.errors import UsageError
from runtime.memory.embed import Array, Embedder
from runtime.memory.embed.choosing import resolve_embedder
from runtime.models.prices import litellm_folder

VARIABLE = "FRACTAL_DATA"
"""The environment variable with the folder of data sets; default: `shared/data` beside the repository."""
Figures = Mapping[str, Any]
"""What a benchmark measures, as `--json` prints it."""
P = ParamSpec("P")
T = TypeVar("T")


# ---- inputs ----------------------------------------------------------------------------------------------


def data_folder() -> Path:
    """The folder of data sets; it may not exist."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def data_file(name: str) -> Path:
    """The path of a data set. Raises `UsageError` if it does not exist."""
    path = data_folder() / name
    if not path.exists():
        raise UsageError(f"{path} does not exist; set {VARIABLE} to the folder of data sets")
    return path


def read_jsonl(path: Path, make: Callable[[int, Any], T], expected: str) -> list[T]:
    """Call `make` with the number (from 0) and the value of each line that is not blank.

    Raises `UsageError` with the number of the first line that is not `expected`.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except ValueError as error:
        raise UsageError(f"{path}: not UTF-8: {error}") from None
    made: list[T] = []
    for number, line in enumerate(lines):
        if line.strip():
            try:
                made.append(make(number, json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                why = f"{type(error).__name__}: {error}"[:200]
                raise UsageError(f"{path}:{number + 1}: expected {expected} ({why})") from None
    return made


def read_tsv(path: Path) -> list[dict[str, str]]:
    """The rows of a file of tab-separated values by the names in its first line."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def tokenizer() -> tuple[Callable[[str], int], str]:
    """A token counter and its name: cl100k_base if litellm is installed, else the runtime's estimate."""
    folder = litellm_folder()
    if folder is not None:
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder / "litellm_core_utils" / "tokenizers"))
        try:
            import tiktoken
        except ImportError:
            pass
        else:
            encoding = tiktoken.get_encoding("cl100k_base")
            return (lambda text: len(encoding.encode(text, disallowed_special=()))), "cl100k_base"
    return estimate_tokens, "estimate (UTF-8 bytes / 3)"


def embedded(embedder: Embedder, texts: Sequence[str]) -> Array:
    """One vector per text. Texts of similar length share a batch, so that little is padded."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    vectors = np.zeros((len(texts), embedder.size), np.float32)
    for start in range(0, len(order), 32):
        batch = order[start : start + 32]
        vectors[batch] = embedder.embed([texts[place] for place in batch])
    return vectors


EMBEDDERS = ("lexical", "minilm")


def available() -> list[str]:
    """The embedders whose weights are installed."""
    return [name for name in EMBEDDERS if name == "lexical" or resolve_embedder()[0] == name]


class CachedEmbedder:
    """Embeds each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.size = embedder.name, embedder.size
        self._vector = cache(lambda text: embedder.embed([text])[0])
        self.embed_tokens = cache(embedder.embed_tokens)

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text."""
        return np.stack([self._vector(text) for text in texts])

    def warm(self, texts: Sequence[str]) -> None:
        """Embed texts in advance."""
        for text in texts:
            self._vector(text)
            self.embed_tokens(text)


def made_up_word(number: int, syllables: int) -> str:
    """A pronounceable word for a number."""
    return "".join(
        "bdfgklmnprst"[number // 12**n % 12] + "aeiou"[number // 5**n % 5] for n in range(syllables)
    )


# ---- measuring -------------------------------------------------------------------------------------------


@dataclass
class Cost:
    """Seconds of wall time and CPU, and bytes passed to write calls."""

    wall: float = 0.0
    cpu: float = 0.0
    bytes: int = 0


@contextmanager
def cost() -> Iterator[Cost]:
    """Measure a block; the result is complete when the block ends."""
    gc.collect()  # the block does not pay for what earlier work left open
    result, written = Cost(), bytes_written()
    cpu, wall = time.process_time(), time.perf_counter()
    yield result
    result.wall, result.cpu = time.perf_counter() - wall, time.process_time() - cpu
    result.bytes = bytes_written() - written


def bytes_written() -> int:
    """Bytes that this process has passed to write calls so far; 0 where the system does not count them."""
    try:
        lines = Path("/proc/self/io").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def timed(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> tuple[T, float]:
    """The result of a call, and its wall time in milliseconds."""
    start = time.perf_counter()
    result = call(*args, **options)
    return result, (time.perf_counter() - start) * 1000


def percentiles(times: Iterable[float], digits: int = 2) -> dict[str, float]:
    """Median and 95th percentile of milliseconds."""
    ordered = sorted(times) or [0.0]
    return {
        "p50_ms": round(ordered[len(ordered) // 2], digits),
        "p95_ms": round(ordered[len(ordered) * 95 // 100], digits),
    }


def medians(rows: Iterable[Sequence[float]]) -> list[float]:
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def share(part: float, whole: float) -> float:
    """A fraction; 0 if the whole is 0."""
    return round(part / whole, 4) if whole else 0.0


def peak_mb() -> float:
    """The peak memory of this process."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def disk_mb(folder: Path) -> float:
    """The size of the files of a folder."""
    return round(sum(path.stat().st_size for path in folder.iterdir()) / 2**20, 1)


def in_new_process(function: Callable[..., Figures], *args: Any) -> dict[str, Any]:
    """Call a function of a module in a new interpreter; arguments and result are JSON values."""
    module, name = function.__module__, function.__name__
    code = f"import json, sys, {module}; print(json.dumps({module}.{name}(*json.loads(sys.argv[1]))))"
    ran = subprocess.run([sys.executable, "-c", code, json.dumps(args)], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)


@dataclass(frozen=True)
class Ended:
    """A process that has ended: exit code, seconds of wall time and CPU, peak memory in megabytes."""

    code: int
    wall: float
    cpu: float
    mb: float


_TIMED = """
import json, os, sys, time
began = time.perf_counter()
quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(pid, 0)
wall, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), wall, cpu, usage.ru_maxrss / 1024]))
"""


def in_small_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command in a folder, without output.

    Linux counts the memory of the process before exec, too, so a small process starts the measured one.
    """
    timed = [sys.executable, "-I", "-S", "-c", _TIMED, *command]
    ran = subprocess.run(
        timed,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return Ended(*json.loads(ran.stdout))


@dataclass(frozen=True)
class Printed:
    """What a process printed. `code` is None if it was stopped."""

    code: int | None
    printed: str
    errors: str


def stopped_after(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> Printed:
    """Run a command in a folder without input; it and its children are killed after `seconds`."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, errors = process.communicate()
        return Printed(None, printed, f"{errors[-200:]}\nstopped after {seconds:g} s")
    return Printed(process.returncode, printed, errors)


# ---- output ----------------------------------------------------------------------------------------------


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """A markdown table; the first `left` columns are aligned left."""
    lines = [heads, [*["---"] * left, *["---:"] * (len(heads) - left)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def p50_p95(figures: Mapping[str, float], digits: int = 1) -> str:
    """A table cell with both percentiles."""
    return f"{figures['p50_ms']:.{digits}f} · {figures['p95_ms']:.{digits}f}"


def show(figures: Figures, text: str, as_json: bool, missed: Iterable[str] = ()) -> None:
    """Print the figures as JSON or text, and the missed goals on standard error."""
    print(json.dumps(figures, indent=1, ensure_ascii=False) if as_json else text)
    for goal in missed:
        print(f"goal missed: {goal}", file=sys.stderr)
