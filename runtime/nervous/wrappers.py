"""Programs with a command inside: what is inside is looked at as if it stood there alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from runtime.nervous.decoding import NOTHING, SOMETHING, Flow
from runtime.nervous.interpreters import SHELLS, run_code, run_fed, run_script
from runtime.nervous.places import UNKNOWN
from runtime.nervous.reading import Call, assignment
from runtime.nervous.shell import Handler, Walk

WRAPPERS: Mapping[str, str] = {
    # name: the options that take a value; what stands behind the options is the command
    "nohup": "",
    "time": "f o",
    "nice": "n",
    "ionice": "c n p",
    "chrt": "p",
    "taskset": "c p",
    "stdbuf": "i o e",
    "setsid": "",
    "command": "",
    "builtin": "",
    "exec": "a",
    "unbuffer": "",
    "sudo": "u g h p C T r t D R",
    "doas": "u C",
    "pkexec": "-user",
    "runuser": "u g",
    "strace": "e o p s f",
    "ltrace": "e o",
    "busybox": "",
    "toybox": "",
    "chroot": "",
    "proot": "r b w",
    "unshare": "",
    "nsenter": "t S G",
    "firejail": "",
    "bwrap": "",
    "caffeinate": "t w",
    "eatmydata": "",
    "fakeroot": "",
    "xvfb-run": "s n",
    "torsocks": "",
    "proxychains": "f",
    "systemd-run": "p u",
    "poetry run": "",
    "pipenv run": "",
    "conda run": "n",
}
_POSITIONAL = {"timeout": 1, "flock": 1, "chroot": 1, "taskset": 1, "chrt": 1}


def run_words(words: Sequence[str], walk: Walk, stdin: Flow) -> Flow:
    """Run words as a call of their own, one level deeper."""
    walk.depth += 1
    try:
        return walk.run(list(words), stdin)
    finally:
        walk.depth -= 1


def run_wrapped(call: Call, walk: Walk, name: str) -> Flow:
    """A call behind `sudo`, `nice` and their like; `name`: the wrapper, of one or two words."""
    rest = list(call.words[len(name.split()) :])
    inner = behind_options(rest, set(WRAPPERS[name].split()))
    inner = inner[_POSITIONAL.get(name, 0) :]
    return run_words(inner, walk, call.stdin) if inner else SOMETHING


def behind_options(words: Sequence[str], valued: set[str]) -> list[str]:
    """The words behind the options (and assignments) at the beginning."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[at + 1 :])
        if word.startswith("-") and len(word) > 1:
            bare = word.lstrip("-")
            takes = bare in valued or (not word.startswith("--") and len(bare) == 1 and bare in valued)
            at += 2 if takes else 1
        elif assignment(word):
            at += 1
        else:
            break
    return list(words[at:])


def _env(call: Call, walk: Walk) -> Flow | None:
    words = list(call.words[1:])
    for at, word in enumerate(words):
        if word in ("-S", "--split-string") and at + 1 < len(words):
            return run_code(" ".join(words[at + 1 :]), call, walk)
        if hit := assignment(word):
            walk.run(["export", word], NOTHING)
            walk.scope.variables[hit[1]] = hit[2]
    inner = behind_options(words, {"u", "C", "-unset", "-chdir"})
    return run_words(inner, walk, call.stdin) if inner else Flow(None, frozenset({"secret"}))


def _export(call: Call, walk: Walk) -> Flow:
    for word in call.words[1:]:
        if hit := assignment(word):
            walk.scope.variables[hit[1]] = hit[2]
    return NOTHING


def _eval(call: Call, walk: Walk) -> Flow:
    return run_code(" ".join(call.words[1:]), call, walk, walk.scope)


def _source(call: Call, walk: Walk) -> Flow:
    return run_script(call.words[1], call, walk) if len(call.words) > 1 else NOTHING


def _xargs(call: Call, walk: Walk) -> Flow:
    inner = behind_options(call.words[1:], set("InPdLsaE"))
    if not inner:
        return SOMETHING
    if "processes" in call.stdin.tags and inner[0].rpartition("/")[2] == "kill":
        walk.reading.find("kills-all", f"ps | {' '.join(call.words)}")
    text = None if {"-a", "--arg-file"} & set(call.words) else call.stdin.known()
    feeding = Flow(None, call.stdin.tags)
    fed = text.split() if text is not None else [UNKNOWN]
    if any(UNKNOWN in word or "{}" in word for word in inner[1:]) or "-I" in call.words:
        mark = next((call.words[n + 1] for n, w in enumerate(call.words[:-1]) if w == "-I"), "{}")
        whole = text.strip() if text is not None else UNKNOWN
        return run_words([word.replace(mark, whole) for word in inner], walk, feeding)
    if inner[0].rpartition("/")[2] in SHELLS and "-c" in inner and text is None and inner[-1] == "-c":
        walk.reading.find("hidden", " ".join(call.words))
    return run_words([*inner, *fed], walk, feeding)


_NARROWING = frozenset(
    [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-mtime",
        "-mmin",
        "-atime",
        "-newer",
        "-empty",
        "-size",
        "-perm",
        "-user",
        "-group",
    ]
)
"""Tests of find after which it finds some files and not all."""


def _find(call: Call, walk: Walk) -> Flow:
    words = list(call.words)
    starts = words[1 : next((n for n, w in enumerate(words[1:], 1) if w[:1] in ("-", "(", "!")), len(words))]
    pairs = list(zip(words, [*words[1:], ""], strict=False))
    narrowed = any(w in _NARROWING and value not in ("*", "*.*") for w, value in pairs)
    named = next(
        (v for w, v in pairs if w in ("-name", "-iname") and not set(v) & set("*?[")), "found-by-find"
    )
    places = [f"{start.rstrip('/')}/{named}" if narrowed else start for start in starts or ["."]]
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at, len(words)) if words[n] in (";", "+")), len(words))
            for found in places:
                inner = [each.replace("{}", found) for each in words[at + 1 : end]]
                run_words(inner, walk, SOMETHING)
        elif word == "-delete":
            for found in places:
                run_words(["rm", "-r", found], walk, NOTHING)
    return Flow("\n".join(places))


def _su(call: Call, walk: Walk) -> Flow:
    words = call.words
    for at, word in enumerate(words[:-1]):
        if word in ("-c", "--command"):
            return run_code(words[at + 1], call, walk)
    return SOMETHING


def _ssh(call: Call, walk: Walk) -> Flow:
    inner = behind_options(call.words[1:], set("piloFLRDJbcemwW"))
    return run_code(" ".join(inner[1:]), call, walk) if len(inner) > 1 else SOMETHING


def _quoted_command(option: str) -> Handler:
    """A program with a command line as the value of an option, or as its first word."""

    def look(call: Call, walk: Walk) -> Flow:
        words = call.words[1:]
        for at, word in enumerate(words[:-1]):
            if option and re.fullmatch(rf"-[a-zA-Z]*{option[1:]}", word):
                return run_code(words[at + 1], call, walk)
        inner = behind_options(words, set("ndti"))
        return run_code(" ".join(inner), call, walk) if inner and not option else SOMETHING

    return look


def _trap(call: Call, walk: Walk) -> Flow:
    plain = [word for word in call.words[1:] if word not in ("-", "--")]
    return run_code(plain[0], call, walk) if len(plain) > 1 and plain[0] else NOTHING


def _alias(call: Call, walk: Walk) -> Flow:
    for word in call.words[1:]:
        if hit := re.fullmatch(r"([\w.-]+)=(.*)", word, re.DOTALL):
            walk.scope.aliases[hit[1]] = hit[2]
            run_code(hit[2], call, walk)
    return NOTHING


def _cd(call: Call, walk: Walk) -> Flow:
    target = next((word for word in call.words[1:] if not word.startswith("-") or word == "-"), "~")
    walk.scope.go(target)
    return NOTHING


_SECRET_WORDS = re.compile(r"(?i)token|secret|passw|pwd|api_?key|\bkey|credential")


def _sifted(call: Call, walk: Walk) -> Flow | None:
    if "secret" in call.stdin.tags and any(_SECRET_WORDS.search(word) for word in call.words[1:]):
        walk.reading.find("secrets-listed", " ".join(call.words))
    return None


def _read_in(call: Call, walk: Walk) -> Flow:
    text = call.stdin.known()
    for name in call.words[1:]:
        if not name.startswith("-"):
            walk.scope.variables[name] = text if text else UNKNOWN
    return NOTHING


def _linked(call: Call, walk: Walk) -> Flow | None:
    plain = [word for word in call.words[1:] if not word.startswith("-")]
    if len(plain) == 2 and plain[0].startswith(("/", "~", "..")):
        walk.scope.links[plain[1].rstrip("/")] = plain[0]
    return None


def _timed(valued: str) -> Handler:
    """A program with one word of its own before the command; `valued`: its options that take a value."""

    def look(call: Call, walk: Walk) -> Flow:
        inner = behind_options(call.words[1:], set(valued.split()))[1:]
        if inner[:1] == ["-c"]:
            return run_code(" ".join(inner[1:]), call, walk)
        return run_words(inner, walk, call.stdin) if inner else SOMETHING

    return look


HANDLERS: Mapping[str, Handler] = {
    "env": _env,
    "export": _export,
    "eval": _eval,
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("xargs", "parallel"), _xargs),
    **dict.fromkeys(("find", "fd"), _find),
    **dict.fromkeys(("su", "runuser"), _su),
    "ssh": _ssh,
    "script": _quoted_command("-c"),
    **dict.fromkeys(("watch", "entr"), _quoted_command("")),
    **dict.fromkeys(("at", "batch"), run_fed),
    "trap": _trap,
    "alias": _alias,
    **dict.fromkeys(("cd", "pushd"), _cd),
    **dict.fromkeys(("grep", "egrep", "rg"), _sifted),
    "read": _read_in,
    "ln": _linked,
    "timeout": _timed("s k -signal -kill-after"),
    "flock": _timed("w E -timeout"),
}
"""Who looks into a call, by the program's name."""
