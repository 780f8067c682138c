"""What the server answers with: JSON, text or a page. None has a secret, whatever an endpoint gives."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

from runtime.secrets.redaction import redact_kept, shown


class Json(JSONResponse):
    """JSON with a ? for half of a character, which texts of models and names of files may hold."""

    def render(self, content: Any) -> bytes:
        """The bytes of a value."""
        text = json.dumps(shown(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


class Text(PlainTextResponse):
    """Text, such as the file of a document."""

    def render(self, content: Any) -> bytes:
        """The bytes of a text."""
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
        return redact_kept(text).encode("utf-8", "replace")


class Markdown(Text):
    """Markdown."""

    media_type = "text/markdown"


class Html(HTMLResponse):
    """A page that `rendering.render` has made: it leaves the secrets out, before it escapes."""
