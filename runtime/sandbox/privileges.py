"""A filter of system calls with which a command makes no file that runs as its owner.

The system applies it to each call (seccomp), so that it holds in every folder, for files that no snapshot
sees, and where Fractal dies before the command. setgid passes, as folders that a group shares have it.
"""

from __future__ import annotations

import functools
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

FILTERS = Path("/proc/sys/kernel/seccomp/actions_avail")
"""Is there where the system takes filters."""
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Where the system call's number, its kind of machine and its arguments are; the lower half of each first."""
_ALLOW, _REFUSE, _MISSING = 0x7FFF0000, 0x00050001, 0x00050026  # EPERM, ENOSYS
_SETUID, _CREATES = 0o4000, 0o20000100  # O_CREAT, and what O_TMPFILE has of its own

_MODE: Mapping[int, Mapping[int, int]] = {
    0xC000003E: {90: 1, 91: 1, 268: 2, 452: 2, 85: 1, 133: 1, 259: 2},  # x86-64
    0x40000003: {15: 1, 94: 1, 306: 2, 452: 2, 8: 1, 14: 1, 297: 2},  # its programs of 32 bits
    0xC00000B7: {52: 1, 53: 2, 452: 2, 33: 2},  # aarch64
    0x40000028: {15: 1, 94: 1, 333: 2, 452: 2, 8: 1, 14: 1, 324: 2},  # its programs of 32 bits
}
"""Of chmod, fchmod, fchmodat, fchmodat2, creat, mknod and mknodat: which argument is the mode."""
_OPEN: Mapping[int, Mapping[int, int]] = {
    0xC000003E: {2: 1, 257: 2},
    0x40000003: {5: 1, 295: 2},
    0xC00000B7: {56: 2},
    0x40000028: {5: 1, 322: 2},
}
"""Of open and openat: which argument has the flags; the mode is the next one."""
_UNREADABLE = (437, 425)
"""openat2 and io_uring_setup, whose arguments a filter cannot read: programs go on without them."""
_MACHINES = {"x86_64": (0xC000003E, 0x40000003), "aarch64": (0xC00000B7, 0x40000028)}
_X32 = 0x40000000
"""The bit of calls by an interface of x86-64 that hardly any system has; it has the same numbers."""

_LOAD, _EQUAL, _ANY, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06


@functools.cache
def no_setuid() -> bytes:
    """The filter as the system takes it; b"" where it takes none, or where its numbers are not known here."""
    code: list[tuple[int, int, int, int]] = []
    known = _MACHINES.get(platform.machine(), ()) if FILTERS.exists() else ()
    for arch in known:
        block: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _NUMBER), (_AND, 0, 0, 0xFFFFFFFF ^ _X32)]
        for number in _UNREADABLE:
            block += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _MISSING)]
        for number, argument in _MODE[arch].items():
            test = _refused(argument)
            block += [(_EQUAL, 0, len(test), number), *test]
        for number, argument in _OPEN[arch].items():
            test = [
                (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
                (_ANY, 1, 0, _CREATES),
                (_RETURN, 0, 0, _ALLOW),
                *_refused(argument + 1),
            ]
            block += [(_EQUAL, 0, len(test), number), *test]
        block.append((_RETURN, 0, 0, _ALLOW))
        code += [(_LOAD, 0, 0, _ARCH), (_EQUAL, 0, len(block), arch), *block]
    if code:
        code.append((_RETURN, 0, 0, _MISSING))  # of no machine that this one runs programs of
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _refused(argument: int) -> list[tuple[int, int, int, int]]:
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_ANY, 0, 1, _SETUID),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
