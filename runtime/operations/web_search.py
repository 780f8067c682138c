"""The operation web-search: addresses for a query, from the search service that the settings name.

A service is an entry of `PROVIDERS`: how its request looks, and where its answer has the results.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.operations.fetch import fetched
from runtime.operations.pages import readable
from runtime.sandbox.context import OperationContext, operation
from runtime.secrets.known import secret_of

_SNIPPET = 300
_LONGEST_QUERY = 500
HOW = (
    "set a provider in fractal.yaml, such as operations: {web-search: {provider: searxng, "
    "url: https://search.example.org}}, or put BRAVE_API_KEY into the environment (docs/tools.md)"
)
_NO_JSON = "; SearXNG answers in JSON where its settings.yml lists json under search: formats:"


@dataclass(frozen=True)
class Provider:
    """A search service: its request and the layout of its answer."""

    address: str  # "": it must be set
    key: str  # the variable of the environment that holds its key; "": it needs none
    header: str  # that takes the key
    fields: Mapping[str, str]  # of the request, with {query} and {limit}
    results: tuple[str, ...]  # where in the answer the list is
    snippet: str  # the name of the text of a result; title and url have these names everywhere


PROVIDERS: Mapping[str, Provider] = {
    "searxng": Provider("", "", "", {"q": "{query}", "format": "json"}, ("results",), "content"),
    "brave": Provider(
        "https://api.search.brave.com/res/v1/web/search",
        "BRAVE_API_KEY",
        "X-Subscription-Token",
        {"q": "{query}", "count": "{limit}"},
        ("web", "results"),
        "description",
    ),
}


@operation()
def web_search(ctx: OperationContext, query: str, limit: int = 8) -> Result:
    """Titles, addresses and snippets of web pages for a query, as the service ranks them."""
    if not query.strip() or len(query) > _LONGEST_QUERY:
        raise OperationFailed(f"query: give some words, at most {_LONGEST_QUERY} characters")
    settings = cast(Mapping[str, Any], ctx.settings.get("web-search", {}))
    name, provider, key = _provider(settings)
    address = _address(name, provider, str(settings.get("url") or provider.address))
    fields = {name: text.format(query=query, limit=limit) for name, text in provider.fields.items()}
    headers = {provider.header: key} if key else {}
    where = f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(fields)}"
    allowed = {**ctx.settings.get("fetch", {}), **settings}
    page = fetched(ctx, where, allowed, {**headers, "Accept": "application/json"})
    if not 200 <= page.status < 300:
        answer = " ".join(page.body[:300].decode("utf-8", "replace").split())
        hint = _NO_JSON if (name, page.status) == ("searxng", 403) else ""
        raise OperationFailed(f"{name} answered {page.status} {page.reason}: {answer}{hint}")
    found = _results(name, provider, page.body)[:limit]
    lines: list[str] = []
    for number, (title, link, snippet) in enumerate(found, 1):
        lines.append(f"{number}. {title} — {link}")
        if snippet:
            lines.append(f"   {snippet}")
    evidence = {"provider": name, "host": urlsplit(address).hostname, "urls": [link for _, link, _ in found]}
    return Result("\n".join(lines) or f"{name} finds nothing for {query!r}", evidence=evidence)


def _provider(settings: Mapping[str, Any]) -> tuple[str, Provider, str]:
    """The configured service, or the first whose key is in the environment."""
    name = str(settings.get("provider") or "")
    if not name:
        keyed = [each for each, entry in PROVIDERS.items() if entry.key and os.environ.get(entry.key)]
        if not keyed:
            raise OperationFailed(f"no web search is configured: {HOW}")
        name = keyed[0]
    if name not in PROVIDERS:
        raise OperationFailed(f"web-search: provider: {name!r} is none of {', '.join(PROVIDERS)}; {HOW}")
    provider = PROVIDERS[name]
    key = secret_of(provider.key) if provider.key else ""
    if provider.key and not key:
        raise OperationFailed(f"web-search: {name} needs its key in the environment, as {provider.key}")
    return name, provider, key


def _address(name: str, provider: Provider, url: str) -> str:
    if not url:
        raise OperationFailed(
            f"web-search: {name} needs url, where it listens: "
            f"operations: {{web-search: {{provider: {name}, url: https://search.example.org}}}}"
        )
    if name == "searxng" and not urlsplit(url).path.rstrip("/").endswith("search"):
        return url.rstrip("/") + "/search"
    return url


def _results(name: str, provider: Provider, body: bytes) -> list[tuple[str, str, str]]:
    try:
        node: Any = json.loads(body)
        for key in provider.results:
            node = node.get(key, {})
        return [
            (
                _line(each.get("title") or each["url"]),
                str(each["url"]),
                _line(each.get(provider.snippet) or ""),
            )
            for each in list(node)
        ]
    except (ValueError, TypeError, AttributeError, KeyError):
        raise OperationFailed(
            f"{name}: the answer is not the JSON of a {name} server; is its url the right one?"
        ) from None


def _line(text: Any) -> str:
    """One line of plain text: services mark words with HTML."""
    return " ".join(readable(str(text)).split())[:_SNIPPET]
