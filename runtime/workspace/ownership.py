"""Whose a folder `state/` is: this user's Fractal knows what it made by a mark with the user's key.

One that came with a clone, an archive or a copy has no mark that holds there. A person is asked about it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kernel import disk
from kernel.errors import StorageError
from runtime import user_files
from runtime.secrets.key import is_kept, is_marked, mark
from runtime.workspace.allowed import VARIABLE, Item, Untrusted, digest, everything, waiting

MARK = "made-by"
"""The file in `state/` by which this user's Fractal knows that it has made it, in this place."""


def is_ours(state: Path) -> bool:
    """Whether this user's Fractal has made a state, or is about to: there is nothing in it yet."""
    try:
        names = os.listdir(state)  # noqa: PTH208 (no error of another kind)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise StorageError(f"{state}: cannot be read: {error.strerror}; fix the cause and retry") from None
    if all(name == "README.md" or name.startswith(f".{MARK}.") for name in names):
        return True
    try:
        claimed = disk.read(state / MARK, 1_000).decode("ascii", "replace")
    except OSError:
        return False
    return is_marked("state", os.fsencode(state), claimed)


def may_change(state: Path) -> bool:
    """Whether a state is this user's for good; raises `StorageError` or `Untrusted` for that of others."""
    try:
        owner = state.lstat().st_uid
    except FileNotFoundError:
        return False
    _refuse_owner(state, owner)
    if not is_ours(state):
        return _refuse_foreign(state)
    sign(state)
    return True


def sign(state: Path) -> None:
    """Give a state of this user its mark, if it has none."""
    if not (state / MARK).exists() and is_ours(state):
        with disk.writing_state(state / MARK):
            disk.put(state / MARK, mark("state", os.fsencode(state)).encode(), mode=0o600)


def _refuse_owner(state: Path, owner: int) -> None:
    """Root also works for who called it by sudo, and for whom the folder belongs to, as in a container."""
    me, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    mine = {me} if me else {0, state.parent.stat().st_uid, *([int(caller)] if caller.isdecimal() else [])}
    if owner not in mine:
        raise StorageError(
            f"{state} belongs to another user (uid {owner}, you are {me}): "
            f"run fractal as that user, or give it to yours: chown -R {me} {state}"
        )


def items(state: Path) -> Iterator[Item]:
    """The state that came with the folder, unless this user's Fractal made it in this place."""
    if not is_ours(state):
        found = digest(b"state\n%b\n%d" % (os.fsencode(state), state.lstat().st_ino))
        shown = "runs and memory that you did not make in this place: of another user, moved or copied"
        yield Item(str(state.parent), "state", found, shown)


def _refuse_foreign(state: Path) -> bool:
    """Raise `Untrusted` for a state that is not allowed; whether it is allowed for good."""
    if asked := waiting(items(state)):
        refused = Untrusted(asked)
        if not is_kept():
            refused.add_note(
                f"{user_files.user_folder()} cannot be written, so that Fractal does not know its own state "
                f"again: set XDG_CONFIG_HOME to a folder that can be written, or {VARIABLE}=all"
            )
        raise refused
    return not everything()
