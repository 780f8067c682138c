"""All that a kernel can do without; `Fractal` is the way in from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.config import Config as Config
    from runtime.fractal import Fractal as Fractal
    from runtime.fractal import RunResult as RunResult

__version__ = "0.1.0"
__all__ = ["Config", "Fractal", "RunResult", "__version__"]


def __getattr__(name: str) -> Any:
    """Load on first use, so that `fractal --help` pays for nothing."""
    if name == "Config":
        from runtime.config import Config

        return Config
    if name in ("Fractal", "RunResult"):
        from runtime import fractal

        return getattr(fractal, name)
    raise AttributeError(name)
