"""What the benchmarks share: data sets, a tokenizer, timing, tables, and how figures are printed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel.errors import UsageError
from kernel.loop.budget import estimate_tokens
from runtime.models.prices import litellm_folder

VARIABLE = "FRACTAL_DATA"
"""The environment variable with the folder of data sets; without it, `shared/data` beside the repository."""


# ---- inputs ----------------------------------------------------------------------------------------------


def data_folder() -> Path:
    """The folder of data sets, whether it exists or not."""
    told = os.environ.get(VARIABLE)
    return Path(told) if told else Path(__file__).resolve().parents[2] / "shared" / "data"


def data_file(name: str) -> Path:
    """A data set. Raises `UsageError` when it does not exist."""
    path = data_folder() / name
    if not path.exists():
        raise UsageError(f"{path} does not exist; name the folder of data sets in {VARIABLE}")
    return path


def tokenizer() -> tuple[Callable[[str], int], str]:
    """A token counter and its name: cl100k_base from the files of litellm, else the runtime's estimate."""
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


# ---- measuring -------------------------------------------------------------------------------------------


def milliseconds(act: Callable[[], object]) -> float:
    """How long a call takes by the clock."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def percentiles(times: Iterable[float], digits: int = 2) -> dict[str, float]:
    """Median and 95th percentile of some milliseconds."""
    ordered = sorted(times) or [0.0]
    return {
        "p50_ms": round(ordered[len(ordered) // 2], digits),
        "p95_ms": round(ordered[len(ordered) * 95 // 100], digits),
    }


def share(part: float, whole: float) -> float:
    """A fraction, 0 where there is nothing."""
    return round(part / whole, 4) if whole else 0.0


def peak_mb() -> float:
    """The most memory that this process has used so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def disk_mb(folder: Path) -> float:
    """The size of the files of a folder."""
    return round(sum(path.stat().st_size for path in folder.iterdir()) / 2**20, 1)


def in_new_process(module: str, *words: str) -> dict[str, Any]:
    """The JSON object that a module prints in an interpreter of its own."""
    ran = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)


# ---- printing --------------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """A markdown table; the first `left` columns are aligned to the left."""
    lines = [heads, [*["---"] * left, *["---:"] * (len(heads) - left)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def p50_p95(figures: Mapping[str, float], digits: int = 1) -> str:
    """A cell with both percentiles."""
    return f"{figures['p50_ms']:.{digits}f} · {figures['p95_ms']:.{digits}f}"


def show(figures: Mapping[str, Any], text: str, as_json: bool, missed: Iterable[str] = ()) -> None:
    """Print the figures as JSON or as text, and on standard error the goals that they miss."""
    print(json.dumps(figures, indent=1, ensure_ascii=False) if as_json else text)
    for each in missed:
        print(f"goal missed: {each}", file=sys.stderr)
