"""`fractal serve`: serves this workspace over HTTP."""

from __future__ import annotations

import os
import socket

import click

from runtime.cli.listening import LOOPBACK, bound, shown
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
    import uvicorn

    from runtime.server.app import create_app

    token = token or os.environ.get("FRACTAL_TOKEN", "")
    listening = bound("--address", address, token)
    names = {*LOOPBACK, *hosts, listening.getsockname()[0], socket.gethostname()}
    app = create_app(folder(), settings={"model": model} if model else {}, token=token, hosts=names)
    notify(f"Fractal at {shown(listening)}" + ("" if token else ", local connections only"))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=5
    )
    uvicorn.Server(config).run(sockets=[listening])
