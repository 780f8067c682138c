"""Clients of a server (`fractal serve`), for programs of your own."""

from runtime.server.client import Brain, BrainError

__all__ = ["Brain", "BrainError"]
