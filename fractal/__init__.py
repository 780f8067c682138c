"""Fractal, a file-based agent runtime: the public Python API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime import __version__

if TYPE_CHECKING:
    from fractal.public import *  # noqa: F403

__all__ = [  # noqa: F405
    "PROGRAM",
    "Ask",
    "Config",
    "ConfigurationError",
    "Decider",
    "Document",
    "DocumentError",
    "Event",
    "Exit",
    "ForeignEdit",
    "Fractal",
    "FractalError",
    "Ladder",
    "LimitReached",
    "OperationContext",
    "OperationFailed",
    "Person",
    "ProviderError",
    "Reflex",
    "Replay",
    "Reply",
    "Responder",
    "Result",
    "RunLocked",
    "RunResult",
    "Said",
    "Scripted",
    "StorageError",
    "Touch",
    "Usage",
    "UsageError",
    "__version__",
    "operation",
    "shipped_system",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `fractal --help` stays quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fractal import public

    return getattr(public, name)
