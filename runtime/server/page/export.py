"""A run as one HTML file to send to somebody: with its style, without any script."""

from __future__ import annotations

import base64
import hashlib

from runtime.api.fractal import Fractal
from runtime.server.page.rendering import ASSETS, render
from runtime.server.page.run_page import as_markdown, as_text, run_page


def as_file(fractal: Fractal, run: str) -> str:
    """The HTML of a run. Raises `UsageError` if there is none of that name."""
    from markupsafe import Markup

    page = run_page(fractal, run)
    texts = {key: as_text(fractal, key) for key in page.documents}
    bodies = {
        key: as_markdown(text, lambda target: f"#{id}" if (id := target.removesuffix(".md")) in texts else "")
        for key, text in texts.items()
    }
    style = (ASSETS / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return render(
        "export.html",
        page=page,
        texts=texts,
        bodies=bodies,
        style=Markup(style),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        live=False,
    )
