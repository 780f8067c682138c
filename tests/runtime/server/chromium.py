"""A real headless Chromium for the tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = (
    "--no-sandbox",  # as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "no chromium here" if not PROGRAM else "" if find_spec("playwright") else "no playwright here"
with_browser = pytest.mark.skipif(bool(MISSING), reason=f"{MISSING}: the page is not tried in a browser")


@contextmanager
def browser() -> Iterator[Any]:
    """A browser, whose `new_page()` is a fresh visitor."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=PROGRAM, args=[*FLAGS])
        try:
            yield launched
        finally:
            launched.close()
