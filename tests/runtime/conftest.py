"""What tests of the runtime share."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/inspector@2.12.0",
)


@pytest.fixture(scope="session")
def npm(request: pytest.FixtureRequest) -> Path:
    """The programs of the official MCP packages, fetched once by npm and kept in pytest's cache.

    Without npm, node or the registry what needs them is skipped.
    """
    if not (shutil.which("npm") and shutil.which("node")):
        pytest.skip("npm or node is not installed: the official servers and the inspector are not tried")
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    folder = request.config.cache.mkdir(f"npm-{digest}")
    programs = folder / "node_modules" / ".bin"
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker installs, the other waits
        if not done.exists():
            install(folder)
            done.touch()
    return programs


def install(folder: Path) -> None:
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    try:
        ran = subprocess.run(
            [*words, *PACKAGES], cwd=folder, capture_output=True, text=True, timeout=100, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm install took longer than 100 s: the official servers are not tried")
    if ran.returncode:
        pytest.skip(f"npm install failed, the official servers are not tried: {ran.stderr.strip()[-300:]}")
