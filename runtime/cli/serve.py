"""`fractal serve`: serves this workspace over HTTP."""

from __future__ import annotations

import socket
import sys

import click

from kernel.document.redaction import learn_secret, secret_of
from runtime.api.listening import LOOPBACK, bound, shown
from runtime.cli.output import notify
from runtime.cli.session import folder, require


@click.command()
@click.option("--address", metavar="HOST:PORT", default="127.0.0.1:8421", show_default=True)
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Another name that clients may use.")
@click.option("--token", metavar="TEXT", help="The bearer token for clients; or FRACTAL_TOKEN.")
@click.option("-m", "--model", help="The model for runs, such as ollama/llama3.2.")
def serve(address: str, hosts: tuple[str, ...], token: str | None, model: str | None) -> None:
    """Serve runs, memory and a page over HTTP.

    Any address but loopback needs a token. When this process ends, its runs can be resumed like any other.
    """
    require("fastapi", "the web server", "server")
    from runtime.server.app import create_app
    from runtime.server.serving import serving

    token = token or secret_of("FRACTAL_TOKEN")
    learn_secret("FRACTAL_TOKEN", token)
    listening = bound("--address", address, token)
    names = {*LOOPBACK, *hosts, listening.getsockname()[0], socket.gethostname()}
    place = shown(listening)

    def announce(code: str) -> None:
        notify(f"to approve at the page, open once: {place}/#person={code}")

    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    notify(f"Fractal at {place}" + ("" if token else ", local connections only"))
    app = create_app(
        folder(),
        settings={"model": model} if model else {},
        token=token,
        hosts=names,
        announce=announce if terminal else None,
    )
    serving(app).run(sockets=[listening])
