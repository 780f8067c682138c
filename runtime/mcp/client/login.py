"""Logins at servers that want OAuth: authorization code with PKCE by the SDK's client, and what is kept.

A login belongs to an address. It is in the user's own folder, readable by the user alone, and never in a
workspace or a document. A run renews it, and asks for no new one: that takes a person.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

from kernel import disk
from kernel.errors import ConfigurationError
from runtime import found_files, user_files
from runtime.http_transport import transport
from runtime.mcp.client.configured import Entry
from runtime.received import ACCEPTED, hold
from runtime.secrets.known import learn_secret

if TYPE_CHECKING:
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider

SECONDS = 300.0
"""How long a person has for a login."""
LARGEST = 100_000
"""Bytes of a login that are read, and of a request to the address that ends it."""
LARGEST_ANSWER = 4_000_000
"""Bytes of an answer to a login."""
EARLY = 30.0
"""Seconds before its end at which a token is renewed."""
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "fractal", "version": "1"},
    },
}
"""A request that a server which wants a login refuses without one."""
_HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


def place(entry: Entry) -> Path:
    """The file of the login at a server."""
    name = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return user_files.user_folder() / "logins" / f"{name}.json"


def how(entry: Entry) -> str:
    """The command that logs in."""
    return f"run `fractal mcp login {entry.name}`"


def wanted(entry: Entry) -> bool:
    """Whether a server is used with the login that is kept: not if its entry has its own credential."""
    return not any(name.lower() == "authorization" for name in entry.headers) and place(entry).is_file()


class Kept:
    """The login at one server, as the SDK stores it, with what it needs to renew it later."""

    def __init__(self, entry: Entry, *, fresh: bool = False) -> None:
        """With `fresh`, nothing of an earlier login is used."""
        self.path, self._url = place(entry), entry.url
        self._fresh = fresh
        self._seen: Any = None
        self._client: dict[str, Any] = {}
        self.provider: OAuthClientProvider | None = None
        if entry.oauth.get("clientId"):
            self._client = _own_client(entry)

    @property
    def changed(self) -> bool:
        """Whether another process has written it since it was read."""
        return not self._fresh and found_files.version(self.path) != self._seen

    def read(self) -> Mapping[str, Any]:
        """What is kept; empty if nothing usable is."""
        self._seen = found_files.version(self.path)
        try:
            data: Any = json.loads(disk.read(self.path, LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        found = cast(dict[str, Any], data) if isinstance(data, dict) else {}
        return found if found.get("url") == self._url else {}

    async def get_tokens(self) -> Any:
        """The tokens; also tells the SDK when they end, and where they are renewed."""
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata
        from pydantic import ValidationError

        data = {} if self._fresh else self.read()
        assert self.provider
        context = self.provider.context
        with suppress(ValidationError):
            tokens = OAuthToken.model_validate(data.get("tokens"))
            self._learn(tokens)
            context.token_expiry_time = float(data.get("expires_at") or 0) or None
            if server := data.get("server"):
                context.oauth_metadata = OAuthMetadata.model_validate(server)
            if resource := data.get("resource"):
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(resource)
                context.auth_server_url = data.get("issuer")
            return tokens
        return None

    async def set_tokens(self, tokens: Any) -> None:
        """Keep new tokens."""
        self._learn(tokens)
        assert self.provider
        context = self.provider.context
        ends = context.token_expiry_time
        data = {
            "url": self._url,
            "tokens": _plain(tokens),
            "expires_at": max(ends - EARLY, 0.0) if ends else None,
            "client": self._client or (_plain(context.client_info) if context.client_info else {}),
            "server": _plain(context.oauth_metadata) if context.oauth_metadata else None,
            "resource": _plain(context.protected_resource_metadata)
            if context.protected_resource_metadata
            else None,
            "issuer": context.auth_server_url,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.parent.chmod(0o700)
        disk.put(self.path, json.dumps(data).encode(), mode=0o600)
        self._seen, self._fresh = found_files.version(self.path), False

    async def get_client_info(self) -> Any:
        """What the server knows this client by."""
        from mcp.shared.auth import OAuthClientInformationFull
        from pydantic import ValidationError

        kept = self._client or ({} if self._fresh else self.read().get("client"))
        with suppress(ValidationError):
            return OAuthClientInformationFull.model_validate(kept) if kept else None
        return None

    async def set_client_info(self, client_info: Any) -> None:
        """Note it; it is kept with the first tokens."""
        if client_info.client_secret:
            learn_secret("MCP_CLIENT_SECRET", client_info.client_secret)
        self._client = _plain(client_info)

    def _learn(self, tokens: Any) -> None:
        learn_secret("MCP_ACCESS_TOKEN", tokens.access_token)
        if tokens.refresh_token:
            learn_secret("MCP_REFRESH_TOKEN", tokens.refresh_token)


def provider_of(entry: Entry, refused: Callable[[], None]) -> Any:
    """What adds the login to the requests of a run; `refused` is called if a person has to log in anew."""

    async def redirect(url: str) -> None:
        refused()
        raise ConfigurationError(f"its login is no longer valid; {how(entry)}")

    async def never() -> AuthorizationCodeResult:
        raise AssertionError("nobody is asked")

    return _provider(entry, Kept(entry), f"http://127.0.0.1:{_port(entry) or 1}/callback", redirect, never)


async def log_in(entry: Entry, browse: Callable[[str], None], seconds: float = SECONDS) -> str:
    """Let a person log in at the address that `browse` is called with. Raises `ConfigurationError`."""
    import httpx2
    from mcp.client.auth import OAuthFlowError

    asked = False

    async def redirect(url: str) -> None:
        nonlocal asked
        asked = True
        browse(url)

    try:
        async with asyncio.timeout(seconds), _listening(_port(entry)) as (address, answered):
            provider = _provider(entry, Kept(entry, fresh=True), address, redirect, lambda: answered)
            headers = {**_HEADERS, **entry.headers}
            async with _client(auth=provider, timeout=seconds, headers=headers) as client:
                if entry.transport == "sse":
                    request = client.stream("GET", entry.url)
                else:
                    request = client.stream("POST", entry.url, json=_HELLO)
                async with request as response:
                    status = response.status_code
    except TimeoutError:
        raise ConfigurationError(f"nobody has logged in within {seconds:g} s") from None
    except OAuthFlowError as error:
        raise ConfigurationError(f"the login failed: {str(error)[:500]}") from None
    except (OSError, httpx2.HTTPError) as error:
        raise ConfigurationError(
            f"{entry.shown} cannot be reached: {error or type(error).__name__}"
        ) from None
    if status in (401, 403):
        raise ConfigurationError(f"the server refuses the login (HTTP {status})")
    return "logged in" if asked else f"it wants no login (HTTP {status})"


async def log_out(entry: Entry) -> bool:
    """Remove the login that is kept, and tell the server, if it takes that; whether there was one."""
    kept = Kept(entry).read()
    try:
        place(entry).unlink()
    except FileNotFoundError:
        return False
    with suppress(Exception):  # it is removed here in any case
        await _revoke(kept)
    return True


async def _revoke(kept: Mapping[str, Any]) -> None:
    client, tokens = kept["client"], kept["tokens"]
    names = {"client_id": client["client_id"], "client_secret": client.get("client_secret", "")}
    token = tokens.get("refresh_token") or tokens["access_token"]
    async with _client(timeout=10.0) as web:
        await web.post(kept["server"]["revocation_endpoint"], data={"token": token, **names})


def _client(**settings: Any) -> Any:
    """A client that reads no longer answer than a login has."""
    import httpx2

    async def bound(response: Any) -> None:
        hold(response, LARGEST_ANSWER, httpx2)

    headers = {**ACCEPTED, **settings.pop("headers", {})}
    hooks = {"response": [bound]}
    return httpx2.AsyncClient(headers=headers, event_hooks=hooks, transport=transport(httpx2), **settings)


def _provider(entry: Entry, kept: Kept, address: str, redirect: Any, answer: Any) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    class Provider(OAuthClientProvider):
        """The SDK's client, which also renews a token that the server refuses, and sees what others renew."""

        async def _auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            renewed = False
            while True:
                if kept.changed:
                    self._initialized = False
                flow = super()._auth_flow(request)
                try:
                    following = await anext(flow)
                    while True:
                        response = yield following
                        if following is request and response.status_code == 401 and not renewed:
                            renewed = True
                            if self._may_renew():
                                break  # the same request once more
                        following = await flow.asend(response)
                except StopAsyncIteration:
                    return
                finally:
                    await flow.aclose()

        def _may_renew(self) -> bool:
            """Whether a token that the server has refused is renewed by the next flow, or was elsewhere."""
            if kept.changed:
                return True
            if self.context.can_refresh_token():
                self.context.token_expiry_time = 1.0
                return True
            return False

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Fractal",
            "redirect_uris": [address],
            "token_endpoint_auth_method": None if entry.oauth.get("clientSecret") else "none",
            "scope": entry.oauth.get("scope"),
        }
    )
    provider = Provider(entry.url, metadata, kept, redirect, answer)
    kept.provider = provider
    return provider


def _own_client(entry: Entry) -> dict[str, Any]:
    """A client that the server knows already, as the entry names it."""
    given = {"client_id": entry.oauth["clientId"], "client_secret": entry.oauth.get("clientSecret")}
    if given["client_secret"]:
        learn_secret("MCP_CLIENT_SECRET", given["client_secret"])
        given["token_endpoint_auth_method"] = "client_secret_post"
    return {name: value for name, value in given.items() if value}


def _port(entry: Entry) -> int:
    """The port of this machine to which the server sends the person back; 0: any."""
    port = entry.oauth.get("callbackPort", "0")
    return int(port) if port.isdecimal() and int(port) < 65_536 else 0


def _plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


@asynccontextmanager
async def _listening(port: int) -> AsyncGenerator[tuple[str, asyncio.Future[AuthorizationCodeResult]]]:
    """An address of this machine to which the browser comes back, and what it brings."""
    from mcp.client.auth import AuthorizationCodeResult

    answered: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            line = (await reader.readuntil(b"\n")).decode("ascii", "replace").split()
            url = urlsplit(line[1] if len(line) > 1 else "")
            given = {name: values[0] for name, values in parse_qs(url.query).items()}
            found = url.path == "/callback" and ("code" in given or "error" in given)
            text = "There is nothing here."
            if found and "error" in given:
                text = f"The login was refused: {given['error']}. You can close this page."
            elif found:
                text = "You are logged in. You can close this page."
            body = f"<!doctype html><meta charset=utf-8><title>Fractal</title><p>{escape(text[:300])}"
            head = f"HTTP/1.1 {200 if found else 404} OK\r\ncontent-type: text/html\r\nconnection: close\r\n"
            writer.write(f"{head}content-length: {len(body.encode())}\r\n\r\n{body}".encode())
            await writer.drain()
            writer.close()
            if found and not answered.done():
                if "error" in given:
                    why = " ".join(filter(None, [given["error"], given.get("error_description", "")]))[:300]
                    answered.set_exception(ConfigurationError(f"the login was refused: {why}"))
                else:
                    answered.set_result(
                        AuthorizationCodeResult(
                            code=given["code"], state=given.get("state"), iss=given.get("iss")
                        )
                    )

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=LARGEST)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback", answered
    finally:
        server.close()
        if answered.done() and not answered.cancelled():
            answered.exception()  # marks it as retrieved
        answered.cancel()
