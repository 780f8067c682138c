"""One thread for matrix products: a second one slows short work down."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """In this context, numpy's products use one thread."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    """Inspects the loaded libraries once, which takes a millisecond."""
    import numpy as np  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
