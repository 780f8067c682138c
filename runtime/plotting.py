"""Pictures of figures, with matplotlib where it is installed (the extra `plot`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError, StorageError


def figure(width: float, height: float, flag: str) -> Any:
    """An empty figure of so many inches. Raises `ConfigurationError` for the `flag` that asked for it."""
    try:
        made: Any = import_module("matplotlib.figure")
    except ImportError as error:
        raise ConfigurationError(
            f"{flag} needs matplotlib, which is not installed: pip install 'fractal-runtime[plot]'"
        ) from error
    return made.Figure(figsize=(width, height), layout="constrained")


def save(picture: Any, path: Path) -> None:
    """Write a figure as PNG. Raises `StorageError`."""
    canvas: Any = import_module("matplotlib.backends.backend_agg")
    try:
        canvas.FigureCanvasAgg(picture).print_figure(path, format="png")
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}; mend that, then try again"
        ) from error
