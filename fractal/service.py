"""Clients of a server (`fractal serve`), for programs of your own."""

from runtime.server.run_client import RunClient, RunError

__all__ = ["RunClient", "RunError"]
