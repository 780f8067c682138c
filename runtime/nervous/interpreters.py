"""Shells and interpreters on a command line: the code that they are given is read as it stands there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.nervous.decoding import SOMETHING, Flow
from runtime.nervous.languages import look_into
from runtime.nervous.places import UNKNOWN
from runtime.nervous.reading import Call, Scope
from runtime.nervous.shell import Walk

SHELLS = frozenset(["sh", "bash", "zsh", "dash", "ksh", "ash", "rbash", "fish"])
LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "python": ("-c",),
    "perl": ("-e", "-E", "-ne", "-pe", "-ane", "-nle", "-i -pe"),
    "ruby": ("-e",),
    "node": ("-e", "--eval", "-p", "--print"),
    "deno": ("eval",),
    "bun": ("-e",),
    "php": ("-r",),
    "lua": ("-e",),
}
"""Interpreters, and the option behind which code stands."""


def run_shell(call: Call, walk: Walk) -> Flow:
    """A shell: the code behind `-c`, a script, or what it is fed."""
    words = call.words[1:]
    at = next((n for n, w in enumerate(words) if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", w)), None)
    if at is not None and at + 1 < len(words):
        scope = walk.scope.inner()
        scope.variables |= {str(n): word for n, word in enumerate(words[at + 2 :])}
        scope.variables |= dict.fromkeys(("@", "*"), " ".join(words[at + 3 :]))
        return run_code(words[at + 1], call, walk, scope)
    script = next((w for w in words if not w.startswith("-")), None)
    if script and script not in ("-", "/dev/stdin") and "-s" not in words:
        return run_script(script, call, walk)
    return run_fed(call, walk)


def run_code(text: str, call: Call, walk: Walk, scope: Scope | None = None) -> Flow:
    """Text that a shell will run."""
    if UNKNOWN in text and (
        text.strip(f"{UNKNOWN} \n;") in ("", "downloaded") or text.lstrip().startswith(UNKNOWN)
    ):
        walk.reading.find("downloaded" if "downloaded" in text else "hidden", " ".join(call.words))
        return SOMETHING
    return walk.reader.line(text, scope or walk.scope.inner(), call.stdin, walk.depth + 1)


def run_script(path: str, call: Call, walk: Walk) -> Flow:
    """A file that a shell runs: its text is not looked into, but where it came from is known."""
    if path in walk.scope.fetched or path in fetched_names(walk):
        walk.reading.find("downloaded", " ".join(call.words))
    elif path.startswith("/dev/fd/"):
        return run_code(walk.scope.variables.get(path, UNKNOWN), call, walk)
    elif UNKNOWN in path:
        walk.reading.find("hidden", " ".join(call.words))
    return SOMETHING


def fetched_names(walk: Walk) -> set[str]:
    """The files that this line downloaded, as they may be called."""
    return {form for path in walk.scope.fetched for form in (path, f"./{path.removeprefix('./')}")}


def run_fed(call: Call, walk: Walk, language: str = "") -> Flow:
    """An interpreter that runs what comes by its standard input."""
    flow = call.stdin
    shown = " ".join(call.words)
    if "remote" in flow.tags:
        walk.reading.find("remote-shell", f"… | {shown}")
    if "downloaded" in flow.tags or "downloaded" in (flow.text or "").split(UNKNOWN)[1:2]:
        walk.reading.find("downloaded", f"… | {shown}")
    elif flow.text is None:
        walk.reading.find("hidden", f"… | {shown}")
    elif language:
        look_into(flow.text, language, walk, call)
    elif flow.text:
        return run_code(flow.text, Call(call.words, call.cwd), walk)
    return Flow(None, frozenset({"shell"})) if flow.text is None else SOMETHING


def run_language(call: Call, walk: Walk, language: str) -> Flow:
    """An interpreter: the code behind its option, or what it is fed."""
    words = call.words[1:]
    codes: list[str] = []
    for at, word in enumerate(words):
        if word in LANGUAGES[language] or (language == "perl" and re.fullmatch(r"-[a-zA-Z0-9]*[eE]", word)):
            codes += words[at + 1 : at + 2]
    for code in codes:
        if code.lstrip().startswith(UNKNOWN):
            walk.reading.find("downloaded" if "downloaded" in code else "hidden", " ".join(call.words))
        look_into(code, language, walk, call)
    plain = [word for word in words if not word.startswith("-")]
    if not codes and "-m" not in words:
        if not plain or plain[0] == "-" or "-" in words:
            run_fed(call, walk, language)
        elif plain[0] in fetched_names(walk) or plain[0].startswith("/dev/fd/"):
            walk.reading.find(
                "downloaded" if plain[0] in walk.scope.fetched else "hidden", " ".join(call.words)
            )
    return SOMETHING
