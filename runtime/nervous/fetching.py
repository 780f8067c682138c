"""What a line downloads, copies and installs: running one of these is running what nobody has seen."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.nervous.decoding import Flow
from runtime.nervous.interpreters import fetched_names
from runtime.nervous.reading import Call
from runtime.nervous.shell import Handler, Walk
from runtime.nervous.wrappers import behind_options, run_words


def was_fetched(path: str, walk: Walk) -> bool:
    """Whether a program was downloaded earlier in this line, or lies in what was."""
    if path in fetched_names(walk):
        return True
    parts = [*walk.scope.cwd.split("/"), *path.split("/")]
    folders = {each[:-1] for each in walk.scope.fetched if each.endswith("/")}
    return "*" in folders or bool(folders & set(parts[:-1]))


def note_downloads(call: Call, walk: Walk) -> None:
    """The files that a download makes: running one of them is running what was downloaded."""
    words = call.words[1:]
    for at, word in enumerate(words):
        hit = re.fullmatch(r"(?:-[a-zA-Z]*[oO]|--output|--output-document)(?:=(.+))?", word)
        if hit and hit[1]:
            walk.scope.fetched.add(hit[1])
        elif hit and call.name == "curl" and word.endswith("O") and word != "-o":
            walk.scope.fetched |= {url.rstrip("/").rpartition("/")[2] for url in words if "://" in url}
        elif hit and at + 1 < len(words):
            walk.scope.fetched.add(words[at + 1])
        elif call.name in ("wget", "aria2c", "axel", "fetch") and "/" in word and not word.startswith("-"):
            walk.scope.fetched.add(word.rstrip("/").rpartition("/")[2])


_REGISTRIES = ("-i", "-f", "--registry")
"""Options whose value is where packages are looked for, beside those that end in `-url`."""
_ADDRESS = re.compile(
    r"""(?:https?|ssh|git)(?:\+\w+)?://
        (?!(?:www\.)?(?:github|gitlab)\.com/[\w.-]+/|files\.pythonhosted|registry\.)""",
    re.VERBOSE,
)


def _installed(call: Call, walk: Walk) -> Flow | None:
    """A package from an address and not from the registry: its code runs as it is installed."""
    runs = {"install", "add", "i", "exec", "run", "dlx"} & set(call.words) or call.name in ("npx", "bunx")
    before = ("", *call.words)
    words = [
        word
        for option, word in zip(before, call.words, strict=False)
        if option not in _REGISTRIES and not option.endswith("-url")
    ]
    if runs and any(_ADDRESS.search(word) and not word.startswith("--") for word in words):
        walk.reading.find("downloaded", " ".join(call.words))
    return None if call.name not in ("npx", "uv") else _run_by(call, walk)


def _run_by(call: Call, walk: Walk) -> Flow | None:
    """What `npx` and `uv run` run."""
    if call.name == "npx":
        inner = behind_options(call.words[1:], {"p"})
        return run_words(inner, walk, call.stdin) if inner and "://" not in inner[0] else None
    return (
        run_words(call.words[2:], walk, call.stdin)
        if call.words[1:2] == ("run",) and call.words[2:]
        else None
    )


def _moved(call: Call, walk: Walk) -> Flow | None:
    """A copy of what was downloaded is what was downloaded."""
    plain = [word for word in call.words[1:] if not word.startswith("-")]
    if len(plain) == 2 and plain[0] in walk.scope.fetched:
        walk.scope.fetched.add(plain[1])
    return None


HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(("pip", "pip3", "pipx", "npm", "pnpm", "yarn", "npx", "bunx", "deno", "uv"), _installed),
    **dict.fromkeys(("cp", "mv"), _moved),
}
"""Who looks into a call, by the program's name."""
