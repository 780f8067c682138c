"""An MCP server of the SDK that wants an OAuth login, with its authorization server: `oauth_server.py STATE`.

It prints its address. STATE is a file of JSON that a test may change at any time: `lives` (seconds of a
token), `refreshes` (whether a token is renewed), `revoked` (tokens that are void), `denies` (whether a person
says no). What happens is written to STATE.log, a line each.
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
from pathlib import Path

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken
from mcp.types import ToolAnnotations

STATE = Path(sys.argv[1])
LATER = 4_000_000_000  # no token ends while a test runs, whatever it is told
STATE.exists() or STATE.write_text("{}")


def told(name, usual):
    return json.loads(STATE.read_text()).get(name, usual)


def note(line):
    with STATE.with_suffix(".log").open("a") as log:
        log.write(f"{line}\n")


class Logins:
    """Everybody who comes is let in, without a page that asks."""

    def __init__(self):
        self.clients, self.codes, self.tokens, self.refreshes = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client):
        note("register")
        self.clients[client.client_id] = client

    async def authorize(self, client, params):
        note("authorize")
        where = str(params.redirect_uri)
        if told("denies", False):
            return construct_redirect_uri(where, error="access_denied", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_hex(8),
            scopes=params.scopes or [],
            expires_at=LATER,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(where, code=code.code, state=params.state)

    async def load_authorization_code(self, client, code):
        return self.codes.get(code)

    async def exchange_authorization_code(self, client, code):
        note("exchange")
        del self.codes[code.code]
        return self.issue(client.client_id, code.scopes, code.resource)

    def issue(self, client, scopes, resource):
        lives = told("lives", 3600)
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        owner = {"client_id": client, "scopes": scopes, "resource": resource}
        self.tokens[access] = AccessToken(token=access, expires_at=LATER, **owner)
        self.refreshes[refresh] = RefreshToken(token=refresh, **owner)
        given = {"access_token": access, "refresh_token": refresh, "scope": " ".join(scopes)}
        return OAuthToken(expires_in=lives, **given)

    async def load_refresh_token(self, client, refresh_token):
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        note("refresh")
        if not told("refreshes", True):
            raise TokenError("invalid_grant", "it has been revoked")
        del self.refreshes[refresh_token.token]
        return self.issue(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        found = self.tokens.get(token)
        return None if found is None or token in told("revoked", []) else found

    async def revoke_token(self, token):
        note("revoke")
        self.tokens.pop(token.token, None)
        self.refreshes.pop(token.token, None)


def main():
    listening = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings = AuthSettings(
        issuer_url=origin,
        resource_server_url=f"{origin}/mcp",
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=True, default_scopes=["use"]),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["use"],
    )
    server = MCPServer("private", auth_server_provider=Logins(), auth=settings, log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def echo(text: str) -> str:
        """Say a text again."""
        note("echo")
        return text

    print(f"{origin}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical")).run(
        sockets=[listening]
    )


if __name__ == "__main__":
    main()
