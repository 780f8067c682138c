"""The files of methods carry who made them, and this user's mark over all that they say.

A file without this mark is a draft: it came with a folder, or somebody has edited it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping

from runtime.secrets.key import is_marked, mark

PURPOSE = "procedure"
DRAFT = "it is a draft"
NOT_OURS = f"{DRAFT}: it came with the folder, or was edited, and nobody has accepted it here"
Makers = Callable[[], Mapping[str, str] | None]
"""The makers on the present ladder by the names of their rungs; None where there is no ladder to ask."""
_MARK = re.compile(r"^mark: .*\n", re.MULTILINE)
_MADE_BY = re.compile(r"^made-by: .*\n", re.MULTILINE)
_STATUS = re.compile(r"^status: ", re.MULTILINE)


def unknown() -> None:
    """There is no ladder to ask."""


def gone(made_by: Collection[str], present: Mapping[str, str] | None) -> str:
    """Why what these have made is a draft: one of them is not on the ladder; "" if all are."""
    left = [each for each in made_by if each and present is not None and each not in present.values()]
    if not left:
        return ""
    return f"{DRAFT} of {', '.join(left)}, which is not on the ladder now; no person has approved of it"


def signed(text: str, made_by: Collection[str]) -> str:
    """The file of a method with its makers (none: a person accepts it) and this user's mark."""
    plain = _MADE_BY.sub("", _MARK.sub("", text, count=1), count=1)
    line = f"made-by: {json.dumps(sorted(made_by))}\n" if made_by else ""
    plain = _STATUS.sub(f"{line}status: ", plain, count=1) if line else plain
    if not _STATUS.search(plain):
        return text  # it says nothing that could be replayed
    return _STATUS.sub(f"mark: {mark(PURPOSE, plain.encode())}\nstatus: ", plain, count=1)


def is_signed(text: str) -> bool:
    """Whether a method's file carries this user's mark for all else that it says."""
    found = _MARK.search(text)
    plain = _MARK.sub("", text, count=1)
    return found is not None and is_marked(PURPOSE, plain.encode(), found[0][6:].strip())
