"""How values become HTML: each text is redacted and escaped, and markdown has no HTML, images or scripts.

A template prints nothing that has not gone through `_visible` or `markdown`. What a person is asked to
approve is `Verbatim`: only known secrets are left out. The filter `exact` says so of a text of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.redaction import Verbatim
from runtime.secrets.redaction import redact, redact_values
from runtime.text import shown

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    from runtime.nervous.waiting import Waits

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
MARKDOWN_CHARS = 300_000
"""Characters of a document that are rendered as markdown; a longer one is shown as text."""
_DIFF = {"+": "added", "-": "removed", "@": "place"}
Link = Callable[[str], str]
"""Where a link of a document leads on the page; "" for one that leads nowhere."""


def render(template: str, **values: Any) -> str:
    """The HTML of a template."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "cost": shown.cost_of,
        "count": shown.count,
        "diff": diff_lines,
        "exact": Verbatim,
        "fingerprint": fingerprint,
        "local": shown.local,
        "money": shown.money,
        "one_line": shown.elide,
        "percent": percent,
        "phase": shown.phase_name,
        "size": shown.tokens,
        "value": _value,
    }
    made.globals |= {"mark": _mark}
    return made


def _visible(value: Any) -> Any:
    """A value as the template prints it: without secrets, with control and invisible characters visible."""
    if value is None:
        return ""
    if isinstance(value, Verbatim):
        return shown.safe(str(redact_values(value)))
    return shown.safe(redact(value)) if type(value) is str else value  # Markup is made by this module


def _value(value: Any) -> str:
    """A value of arguments or evidence: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _mark(status: str) -> str:
    return shown.MARKS.get(status, ("·", ""))[0]


def percent(share: float | None) -> str:
    """A share in percent; "–" where there is nothing to count."""
    return "–" if share is None else f"{share:.0%}"


def fingerprint(waits: Waits) -> str:
    """What tells a question or plan from the one that the same run asks later."""
    return sha256(f"{waits.loop}\n{waits.text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def diff_lines(text: str) -> list[tuple[str, str]]:
    """The lines of a diff, each with its class."""
    return [(_DIFF.get(each[:1], ""), each) for each in redact(text).splitlines()]


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "html_block"])


def markdown(text: str, link: Link = lambda target: "") -> Markup:
    """Text of unknown origin as HTML. Links lead to addresses of the web, or where `link` says.

    Headings become smaller, because the page has its own.
    """
    from markupsafe import Markup

    parser = _markdown()
    tokens = parser.parse(shown.safe(redact(text)))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
        _redirect(token.children or (), link)
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def _redirect(tokens: Sequence[Any], link: Link) -> None:
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrs.get("href", ""))
            if not target.startswith(("https://", "http://")):
                token.attrs = {"href": place} if (place := link(target)) else {}
            else:
                token.attrs = {"href": target, "rel": "noopener noreferrer nofollow"}
