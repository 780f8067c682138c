"""Sockets in the file system at which a program outside listens: a command without network reaches none."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kernel import disk

BOUND = Path("/proc/net/unix")
"""The system's list of sockets; it names them as their programs did, so some by a relative path."""
TRIED = 500
"""Most sockets that are tried: a few milliseconds. More count as ones that are listened at."""


def listed() -> list[Path]:
    """The sockets that programs hold open by an absolute path, each where it is without links."""
    found: dict[Path, None] = {}
    with suppress(OSError):
        for line in BOUND.read_bytes().splitlines():
            _, slash, rest = line.partition(b" /")
            path = Path(os.fsdecode(slash[1:] + rest))
            with suppress(OSError):
                if slash and stat.S_ISSOCK(path.lstat().st_mode):
                    found[path.parent.resolve() / path.name] = None
    return list(found)


def listened(paths: Iterable[Path]) -> list[Path]:
    """Those at which a program listens; one that a program has left behind may be removed and made anew."""
    return [path for n, path in enumerate(paths) if n >= TRIED or _answers(path)]


def _answers(path: Path) -> bool:
    try:
        with disk.handle_of(path.parent, os.O_PATH) as above, socket.socket(socket.AF_UNIX) as own:
            own.setblocking(False)
            own.connect(f"/proc/self/fd/{above}/{path.name}")  # a name may be longer than an address
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError:
        return True  # busy, or of another type
    return True
