"""Programs that take a command in an option, or in a text of their own: git, tar, make, vim, awk, nc."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from runtime.nervous.decoding import NOTHING, Flow
from runtime.nervous.interpreters import SHELLS, run_code
from runtime.nervous.languages import look_into
from runtime.nervous.reading import Access, Call, assignment
from runtime.nervous.shell import Handler, Walk
from runtime.nervous.wrappers import run_words

_GIT_RUNS = (
    "-x",
    "--exec",
    "--upload-pack",
    "--receive-pack",
    "--tree-filter",
    "--env-filter",
    "--index-filter",
)


def _git(call: Call, walk: Walk) -> Flow | None:
    if call.words[1:2] == ("-C",) and call.words[3:]:  # as if it stood in that folder
        walk.scope, outer = walk.scope.inner(), walk.scope
        walk.scope.go(call.words[2])
        flow = run_words(["git", *call.words[3:]], walk, call.stdin)
        walk.scope = outer
        return flow
    for at, word in enumerate(call.words[:-1]):
        hit = re.fullmatch(
            r"[\w.-]*(?:alias\.\w+|pager|editor|sshcommand|fsmonitor|hookspath)=(.*)",
            call.words[at + 1],
            re.I,
        )
        if word == "-c" and hit:
            value = hit[1].removeprefix("!")
            if hit[1].startswith("!") or "alias" not in call.words[at + 1]:
                run_code(value, call, walk)
        elif word in _GIT_RUNS:
            run_code(call.words[at + 1], call, walk)
    for word in call.words:
        if word.partition("=")[0] in _GIT_RUNS and "=" in word:
            run_code(word.partition("=")[2], call, walk)
    if "clone" in call.words:
        plain = [word for word in call.words[call.words.index("clone") + 1 :] if not word.startswith("-")]
        target = plain[1] if len(plain) > 1 else plain[0] if plain else ""
        walk.scope.fetched.add(f"{target.rstrip('/').rpartition('/')[2].removesuffix('.git')}/")
    if "submodule" in call.words and "foreach" in call.words:
        run_code(call.words[-1], call, walk)
    if "bisect" in call.words and "run" in call.words:
        run_words(call.words[call.words.index("run") + 1 :], walk, NOTHING)
    return None


def _tar(call: Call, walk: Walk) -> Flow | None:
    if "downloaded" in call.stdin.tags:
        walk.scope.fetched.add("*/")  # anything that is there from now on may have come with it
    folder = ""
    for option, word in itertools.pairwise(call.words):
        if option in ("-C", "--directory"):
            folder = word
        elif folder and not word.startswith("-"):  # it is taken from there
            walk.reading.files.append(Access(f"{folder}/{word}", call.cwd, writes=False))
    for at, word in enumerate(call.words):
        hit = re.fullmatch(
            r"--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command|info-script)=(.*)", word
        )
        if hit:
            if "use-compress" not in word:
                walk.reading.find("hidden", " ".join(call.words))
            run_code(hit[1], call, walk)
        elif word in ("-I", "--to-command", "--use-compress-program") and at + 1 < len(call.words):
            run_code(call.words[at + 1], call, walk)
    return None


def _make(call: Call, walk: Walk) -> Flow | None:
    for word in call.words[1:]:
        if (hit := assignment(word)) and hit[1] == "SHELL" and hit[2].rpartition("/")[2] not in SHELLS:
            walk.reading.find("hidden", " ".join(call.words))
        elif hit := re.fullmatch(r"--eval=?(.*)", word, re.DOTALL):
            for inner in re.findall(r"\$\(shell ([^)]*)\)", hit[1]):
                run_code(inner, call, walk)
    if "-" in call.words and call.stdin.tags & {"downloaded", "hidden"}:
        walk.reading.find("downloaded", " ".join(call.words))
    return None


def _editor(call: Call, walk: Walk) -> Flow | None:
    for word in call.words[1:]:
        for inner in re.findall(r"(?:^|[|:+\s])!\s*([^|\n]+)", word):
            run_code(inner, call, walk)
    return None


def _text_tool(call: Call, walk: Walk) -> Flow | None:
    """awk's system(), sed's e: programs within a text."""
    for word in call.words[1:]:
        look_into(word, "awk" if "awk" in call.name else "sed", walk, call)
    return None


def _netcat(call: Call, walk: Walk) -> Flow | None:
    words = call.words[1:]
    runs = (
        any(re.fullmatch(r"-\w*[ec]\w*", word) for word in words) or "--exec" in words or "--sh-exec" in words
    )
    if runs or any(re.search(r"(?i)^(?:exec|system):", word) for word in words):
        walk.reading.find("remote-shell", " ".join(call.words))
    _shell_sent(call, walk)
    return Flow(None, frozenset({"downloaded", "remote"}))


def _shell_sent(call: Call, walk: Walk) -> None:
    if "shell" in call.stdin.tags:
        walk.reading.find("remote-shell", f"… | {' '.join(call.words)}")


def _telnet(call: Call, walk: Walk) -> Flow | None:
    _shell_sent(call, walk)
    return None


def _openssl(call: Call, walk: Walk) -> Flow | None:
    if "s_client" in call.words:
        _shell_sent(call, walk)
    return None


def _socat(call: Call, walk: Walk) -> Flow | None:
    _shell_sent(call, walk)
    if any(re.search(r"(?i)(?:exec|system|shell):", word) for word in call.words[1:]):
        walk.reading.find("remote-shell", " ".join(call.words))
    return None


HANDLERS: Mapping[str, Handler] = {
    "git": _git,
    "tar": _tar,
    "make": _make,
    **dict.fromkeys(("vim", "vi", "nvim", "ex"), _editor),
    **dict.fromkeys(("awk", "gawk", "mawk", "sed"), _text_tool),
    **dict.fromkeys(("nc", "ncat", "netcat"), _netcat),
    "socat": _socat,
    "telnet": _telnet,
    "openssl": _openssl,
}
"""Who looks into a call, by the program's name."""
