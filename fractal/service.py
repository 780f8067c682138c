"""Clients of a server (`fractal serve`), for programs of your own."""

from runtime.server.client import Brain, BrainError
from runtime.server.run_client import RunClient, RunError

__all__ = ["Brain", "BrainError", "RunClient", "RunError"]
