"""One thread for products of matrices: for short work a second costs more than it brings."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Inside it, numpy's products take one thread."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    """Looks at the libraries that are loaded, which takes a millisecond: once, after numpy is there."""
    import numpy as np  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
