"""Which programs run other programs, or text as code, and who looks into each of them."""

from __future__ import annotations

import re

from runtime.nervous import embedded, fetching, wrappers
from runtime.nervous.decoding import DOWNLOADERS, Flow
from runtime.nervous.interpreters import LANGUAGES, SHELLS, run_language, run_shell
from runtime.nervous.places import UNKNOWN
from runtime.nervous.reading import Call, Reading, Scope
from runtime.nervous.shell import Reader, TooMuch, Walk

LONGEST = 60_000
"""Characters of a command that are read."""
_HANDLERS = {**wrappers.HANDLERS, **embedded.HANDLERS, **fetching.HANDLERS}


def read(command: str, folder: str, stdin: str = "") -> Reading:
    """What a command does when it is run in `folder` and fed with `stdin`."""
    reading = Reading()
    if len(command) > LONGEST:
        reading.find("hidden", f"{len(command)} characters are too many to read")
        command = command[:LONGEST]
    try:
        Reader(reading, inside).line(command, Scope(folder), Flow(stdin), 0)
    except (TooMuch, RecursionError):
        reading.find("hidden", "it is nested too deeply, or does too much, to be read to its end")
    return reading


def inside(call: Call, walk: Walk) -> Flow | None:
    """Look into a call that runs something else; what it prints, or None where it is no such program."""
    name = call.name
    if handler := _HANDLERS.get(name):
        return handler(call, walk)
    if name in SHELLS:
        return run_shell(call, walk)
    language = re.sub(r"[\d.]+$", "", name)
    if language in LANGUAGES or language == "nodejs":
        return run_language(call, walk, "node" if language == "nodejs" else language)
    two = " ".join((name, *call.words[1:2]))
    if name in wrappers.WRAPPERS or two in wrappers.WRAPPERS:
        return wrappers.run_wrapped(call, walk, name if name in wrappers.WRAPPERS else two)
    if name in DOWNLOADERS:
        fetching.note_downloads(call, walk)
        return None
    if UNKNOWN not in call.words[0] and "/" in call.words[0] and fetching.was_fetched(call.words[0], walk):
        walk.reading.find("downloaded", " ".join(call.words))
    return None
