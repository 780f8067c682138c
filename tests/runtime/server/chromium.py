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


CONTRASTS = """() => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => colour.slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, n) => sum + each * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = rgb(getComputedStyle(each).backgroundColor);
      if (found[3] > 0) return found;
    }
    return rgb(getComputedStyle(document.body).backgroundColor);
  };
  const paint = (element) => {
    const style = getComputedStyle(element);
    return element.matches("polyline") ? style.stroke : element.closest("svg") ? style.fill : style.color;
  };
  const says = (element) => element.matches("polyline, rect:not([width='100%'])") ||
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  return [...document.querySelectorAll("body *")]
    .filter((each) => each.checkVisibility() && says(each))
    .map((each) => {
      const [more, less] = [light(rgb(paint(each))), light(behind(each))].sort((a, b) => b - a);
      const what = `${each.tagName} ${paint(each)} ${each.textContent.slice(0, 40)}`;
      return [(more + 0.05) / (less + 0.05), what];
    });
}"""


def contrasts(page: Any) -> list[tuple[float, str]]:
    """The contrast of each visible text and line of a chart with what is behind it, by WCAG; its name."""
    return page.evaluate(CONTRASTS)
