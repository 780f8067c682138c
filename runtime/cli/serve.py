"""`fractal serve`: serves this workspace over HTTP."""

from __future__ import annotations

import socket
import sys

import click

from kernel.document.redaction import Verbatim
from runtime.api.listening import LOOPBACK, bound, shown
from runtime.api.listening import token as token_of
from runtime.cli.output import notify
from runtime.cli.session import folder, require


@click.command()
@click.option("--address", metavar="HOST:PORT", default="127.0.0.1:8421", show_default=True)
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Another name that clients may use.")
@click.option("--token", metavar="TEXT", help="The bearer token for clients; or FRACTAL_TOKEN.")
@click.option("--no-token", is_flag=True, help="Let every user and program of this machine in.")
@click.option("-m", "--model", help="The model for runs, such as ollama/llama3.2.")
def serve(address: str, hosts: tuple[str, ...], token: str | None, no_token: bool, model: str | None) -> None:
    """Serve runs, memory and a page over HTTP.

    Clients show a token. It is that of --token or FRACTAL_TOKEN; any address but loopback needs one of these.
    Otherwise it is the one in ~/.config/fractal/token, which the first start makes. When this process ends,
    its runs can be resumed like any other.
    """
    require("fastapi", "the web server", "server")
    from runtime.server.app import create_app
    from runtime.server.serving import serving

    asked = token_of(token, no_token)
    listening = bound("--address", address, "" if asked.place else asked.text)
    names = {*LOOPBACK, *hosts, listening.getsockname()[0], socket.gethostname()}
    place = shown(listening)

    def announce(code: str) -> None:
        # a token that the user made is not printed
        way = f"&token={asked.text}" if asked.place else ""
        notify(Verbatim(f"to approve at the page, open once: {place}/#person={code}{way}"))

    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    notify(f"Fractal at {place}{asked.shown}")
    app = create_app(
        folder(),
        settings={"model": model} if model else {},
        token=asked.text,
        hosts=names,
        announce=announce if terminal else None,
    )
    serving(app).run(sockets=[listening])
