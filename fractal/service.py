"""The client of a server (`fractal serve`), for programs of your own."""

from runtime.server.client import Client, ServerError

__all__ = ["Client", "ServerError"]
