"""Programs that run other programs, or text as code: what is inside is looked at as if it stood there alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.nervous.decoding import DOWNLOADERS, NOTHING, SOMETHING, Flow
from runtime.nervous.places import UNKNOWN
from runtime.nervous.programs import look_into
from runtime.nervous.shell import Call, assignment

if TYPE_CHECKING:
    from runtime.nervous.shell import _Walk as Walk

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
_WRAPPERS: Mapping[str, str] = {
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


def inside(call: Call, walk: Walk) -> Flow | None:
    """Look into a call that runs something else; what it prints, or None where it is no such program."""
    name = call.name
    if handler := _HANDLERS.get(name):
        return handler(call, walk)
    if name in SHELLS:
        return _shell(call, walk)
    language = re.sub(r"[\d.]+$", "", name)
    if language in LANGUAGES or language == "nodejs":
        return _language(call, walk, "node" if language == "nodejs" else language)
    two = " ".join((name, *call.words[1:2]))
    if name in _WRAPPERS or two in _WRAPPERS:
        return _wrapped(call, walk, name if name in _WRAPPERS else two)
    if name in DOWNLOADERS:
        _downloads(call, walk)
        return None
    if UNKNOWN not in call.words[0] and "/" in call.words[0] and _came(call.words[0], walk):
        walk.reading.find("downloaded", " ".join(call.words))
    return None


def _came(path: str, walk: Walk) -> bool:
    """Whether a program was downloaded earlier in this line, or lies in what was."""
    if path in _fetched(walk):
        return True
    parts = [*walk.scope.cwd.split("/"), *path.split("/")]
    folders = {each[:-1] for each in walk.scope.fetched if each.endswith("/")}
    return "*" in folders or bool(folders & set(parts[:-1]))


def _run(words: Sequence[str], walk: Walk, stdin: Flow) -> Flow:
    """Run words as a call of their own, one level deeper."""
    walk.depth += 1
    try:
        return walk.run(list(words), stdin)
    finally:
        walk.depth -= 1


def _wrapped(call: Call, walk: Walk, name: str) -> Flow:
    rest = list(call.words[len(name.split()) :])
    inner = _behind_options(rest, set(_WRAPPERS[name].split()))
    inner = inner[_POSITIONAL.get(name, 0) :]
    return _run(inner, walk, call.stdin) if inner else SOMETHING


def _behind_options(words: Sequence[str], valued: set[str]) -> list[str]:
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


# ---- shells and interpreters -----------------------------------------------------------------------------


def _shell(call: Call, walk: Walk) -> Flow:
    words = call.words[1:]
    at = next((n for n, w in enumerate(words) if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", w)), None)
    if at is not None and at + 1 < len(words):
        scope = walk.scope.inner()
        scope.variables |= {str(n): word for n, word in enumerate(words[at + 2 :])}
        scope.variables |= dict.fromkeys(("@", "*"), " ".join(words[at + 3 :]))
        return _code(words[at + 1], call, walk, scope)
    script = next((w for w in words if not w.startswith("-")), None)
    if script and script not in ("-", "/dev/stdin") and "-s" not in words:
        return _script(script, call, walk)
    return _fed(call, walk)


def _code(text: str, call: Call, walk: Walk, scope: object | None = None) -> Flow:
    """Text that a shell will run."""
    if UNKNOWN in text and (
        text.strip(f"{UNKNOWN} \n;") in ("", "downloaded") or text.lstrip().startswith(UNKNOWN)
    ):
        walk.reading.find("downloaded" if "downloaded" in text else "hidden", " ".join(call.words))
        return SOMETHING
    return walk.reader.line(text, scope or walk.scope.inner(), call.stdin, walk.depth + 1)  # type: ignore[arg-type]


def _script(path: str, call: Call, walk: Walk) -> Flow:
    if path in walk.scope.fetched or path in _fetched(walk):
        walk.reading.find("downloaded", " ".join(call.words))
    elif path.startswith("/dev/fd/"):
        return _code(walk.scope.variables.get(path, UNKNOWN), call, walk)
    elif UNKNOWN in path:
        walk.reading.find("hidden", " ".join(call.words))
    return SOMETHING


def _fetched(walk: Walk) -> set[str]:
    return {form for path in walk.scope.fetched for form in (path, f"./{path.removeprefix('./')}")}


def _fed(call: Call, walk: Walk, language: str = "") -> Flow:
    """An interpreter that runs what comes by its standard input."""
    flow = call.stdin
    shown = " ".join(call.words)
    if "downloaded" in flow.tags or "downloaded" in (flow.text or "").split(UNKNOWN)[1:2]:
        walk.reading.find("downloaded", f"… | {shown}")
    elif flow.text is None:
        walk.reading.find("hidden", f"… | {shown}")
    elif language:
        look_into(flow.text, language, walk, call)
    elif flow.text:
        return _code(flow.text, Call(call.words, call.cwd), walk)
    return SOMETHING


def _language(call: Call, walk: Walk, language: str) -> Flow:
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
            _fed(call, walk, language)
        elif plain[0] in _fetched(walk) or plain[0].startswith("/dev/fd/"):
            walk.reading.find(
                "downloaded" if plain[0] in walk.scope.fetched else "hidden", " ".join(call.words)
            )
    return SOMETHING


# ---- programs with a command inside ----------------------------------------------------------------------


def _env(call: Call, walk: Walk) -> Flow | None:
    words = list(call.words[1:])
    for at, word in enumerate(words):
        if word in ("-S", "--split-string") and at + 1 < len(words):
            return _code(" ".join(words[at + 1 :]), call, walk)
        if hit := assignment(word):
            walk.run(["export", word], NOTHING)
            walk.scope.variables[hit[1]] = hit[2]
    inner = _behind_options(words, {"u", "C", "-unset", "-chdir"})
    return _run(inner, walk, call.stdin) if inner else Flow(None, frozenset({"secret"}))


def _export(call: Call, walk: Walk) -> Flow:
    for word in call.words[1:]:
        if hit := assignment(word):
            walk.scope.variables[hit[1]] = hit[2]
    return NOTHING


def _eval(call: Call, walk: Walk) -> Flow:
    return _code(" ".join(call.words[1:]), call, walk, walk.scope)


def _source(call: Call, walk: Walk) -> Flow:
    return _script(call.words[1], call, walk) if len(call.words) > 1 else NOTHING


def _xargs(call: Call, walk: Walk) -> Flow:
    inner = _behind_options(call.words[1:], set(["I", "n", "P", "d", "L", "s", "a", "E"]))
    if not inner:
        return SOMETHING
    text = None if {"-a", "--arg-file"} & set(call.words) else call.stdin.known()
    feeding = Flow(None, call.stdin.tags)
    fed = text.split() if text is not None else [UNKNOWN]
    if any(UNKNOWN in word or "{}" in word for word in inner[1:]) or "-I" in call.words:
        mark = next((call.words[n + 1] for n, w in enumerate(call.words[:-1]) if w == "-I"), "{}")
        whole = text.strip() if text is not None else UNKNOWN
        return _run([word.replace(mark, whole) for word in inner], walk, feeding)
    if inner[0].rpartition("/")[2] in SHELLS and "-c" in inner and text is None and inner[-1] == "-c":
        walk.reading.find("hidden", " ".join(call.words))
    return _run([*inner, *fed], walk, feeding)


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
    ]
    + ["-size", "-perm", "-user", "-group"]
)


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
                _run(inner, walk, SOMETHING)
        elif word == "-delete":
            for found in places:
                _run(["rm", "-r", found], walk, NOTHING)
    return Flow("\n".join(places))


def _su(call: Call, walk: Walk) -> Flow:
    words = call.words
    for at, word in enumerate(words[:-1]):
        if word in ("-c", "--command"):
            return _code(words[at + 1], call, walk)
    return SOMETHING


def _ssh(call: Call, walk: Walk) -> Flow:
    inner = _behind_options(
        call.words[1:], set(["p", "i", "l", "o", "F", "L", "R", "D", "J", "b", "c", "e", "m", "w", "W"])
    )
    return _code(" ".join(inner[1:]), call, walk) if len(inner) > 1 else SOMETHING


def _quoted_command(option: str) -> Callable[[Call, Walk], Flow]:
    """A program with a command line as the value of an option, or as its first word."""

    def look(call: Call, walk: Walk) -> Flow:
        words = call.words[1:]
        for at, word in enumerate(words[:-1]):
            if option and re.fullmatch(rf"-[a-zA-Z]*{option[1:]}", word):
                return _code(words[at + 1], call, walk)
        inner = _behind_options(words, set(["n", "d", "t", "i"]))
        return _code(" ".join(inner), call, walk) if inner and not option else SOMETHING

    return look


def _at(call: Call, walk: Walk) -> Flow:
    return _fed(call, walk)


def _trap(call: Call, walk: Walk) -> Flow:
    plain = [word for word in call.words[1:] if word not in ("-", "--")]
    return _code(plain[0], call, walk) if len(plain) > 1 and plain[0] else NOTHING


def _alias(call: Call, walk: Walk) -> Flow:
    for word in call.words[1:]:
        if hit := re.fullmatch(r"([\w.-]+)=(.*)", word, re.DOTALL):
            walk.scope.aliases[hit[1]] = hit[2]
            _code(hit[2], call, walk)
    return NOTHING


def _cd(call: Call, walk: Walk) -> Flow:
    import posixpath

    target = next((word for word in call.words[1:] if not word.startswith("-") or word == "-"), "~")
    if UNKNOWN in target or target == "-":
        walk.scope.cwd = UNKNOWN
    elif target.startswith(("/", "~")):
        walk.scope.cwd = target
    else:
        walk.scope.cwd = posixpath.normpath(f"{walk.scope.cwd}/{target}")
    return NOTHING


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
    for at, word in enumerate(call.words[:-1]):
        hit = re.fullmatch(
            r"[\w.-]*(?:alias\.\w+|pager|editor|sshcommand|fsmonitor|hookspath)=(.*)",
            call.words[at + 1],
            re.I,
        )
        if word == "-c" and hit:
            value = hit[1].removeprefix("!")
            if hit[1].startswith("!") or "alias" not in call.words[at + 1]:
                _code(value, call, walk)
        elif word in _GIT_RUNS:
            _code(call.words[at + 1], call, walk)
    for word in call.words:
        if word.partition("=")[0] in _GIT_RUNS and "=" in word:
            _code(word.partition("=")[2], call, walk)
    if "clone" in call.words:
        plain = [word for word in call.words[call.words.index("clone") + 1 :] if not word.startswith("-")]
        target = plain[1] if len(plain) > 1 else plain[0] if plain else ""
        walk.scope.fetched.add(f"{target.rstrip('/').rpartition('/')[2].removesuffix('.git')}/")
    if "submodule" in call.words and "foreach" in call.words:
        _code(call.words[-1], call, walk)
    if "bisect" in call.words and "run" in call.words:
        _run(call.words[call.words.index("run") + 1 :], walk, NOTHING)
    return None


def _tar(call: Call, walk: Walk) -> Flow | None:
    if "downloaded" in call.stdin.tags:
        walk.scope.fetched.add("*/")  # anything that is there from now on may have come with it
    for at, word in enumerate(call.words):
        hit = re.fullmatch(
            r"--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command|info-script)=(.*)", word
        )
        if hit:
            if "use-compress" not in word:
                walk.reading.find("hidden", " ".join(call.words))
            _code(hit[1], call, walk)
        elif word in ("-I", "--to-command", "--use-compress-program") and at + 1 < len(call.words):
            _code(call.words[at + 1], call, walk)
    return None


def _make(call: Call, walk: Walk) -> Flow | None:
    for word in call.words[1:]:
        if (hit := assignment(word)) and hit[1] == "SHELL" and hit[2].rpartition("/")[2] not in SHELLS:
            walk.reading.find("hidden", " ".join(call.words))
        elif hit := re.fullmatch(r"--eval=?(.*)", word, re.DOTALL):
            for inner in re.findall(r"\$\(shell ([^)]*)\)", hit[1]):
                _code(inner, call, walk)
    if "-" in call.words and call.stdin.tags & {"downloaded", "hidden"}:
        walk.reading.find("downloaded", " ".join(call.words))
    return None


def _editor(call: Call, walk: Walk) -> Flow | None:
    for word in call.words[1:]:
        for inner in re.findall(r"(?:^|[|:+\s])!\s*([^|\n]+)", word):
            _code(inner, call, walk)
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
    return Flow(None, frozenset({"downloaded"}))


def _socat(call: Call, walk: Walk) -> Flow | None:
    if any(re.search(r"(?i)(?:exec|system|shell):", word) for word in call.words[1:]):
        walk.reading.find("remote-shell", " ".join(call.words))
    return None


def _downloads(call: Call, walk: Walk) -> None:
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


def _installed(call: Call, walk: Walk) -> Flow | None:
    """A package from an address and not from the registry: its code runs as it is installed."""
    runs = {"install", "add", "i", "exec", "run", "dlx"} & set(call.words) or call.name in ("npx", "bunx")
    own = re.compile(
        r"(?:https?|ssh|git)(?:\+\w+)?://(?!(?:www\.)?(?:github|gitlab)\.com/(?:[\w.-]+)/|files\.pythonhosted|registry\.)"
    )
    words = [
        w
        for n, w in enumerate(call.words)
        if call.words[n - 1] not in ("-i", "--index-url", "--extra-index-url", "-f", "--registry")
    ]
    if runs and any(own.search(word) and not word.startswith("--") for word in words):
        walk.reading.find("downloaded", " ".join(call.words))
    return None if call.name not in ("npx", "uv") else _wrapped_else(call, walk)


def _wrapped_else(call: Call, walk: Walk) -> Flow | None:
    if call.name == "npx":
        inner = _behind_options(call.words[1:], {"p"})
        return _run(inner, walk, call.stdin) if inner and "://" not in inner[0] else None
    return _run(call.words[2:], walk, call.stdin) if call.words[1:2] == ("run",) and call.words[2:] else None


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


def _moved(call: Call, walk: Walk) -> Flow | None:
    """A copy of what was downloaded is what was downloaded."""
    plain = [word for word in call.words[1:] if not word.startswith("-")]
    if len(plain) == 2 and plain[0] in walk.scope.fetched:
        walk.scope.fetched.add(plain[1])
    return None


_HANDLERS: Mapping[str, Callable[[Call, Walk], Flow | None]] = {
    "env": _env,
    "export": _export,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "xargs": _xargs,
    "parallel": _xargs,
    "find": _find,
    "fd": _find,
    "su": _su,
    "runuser": _su,
    "ssh": _ssh,
    "script": _quoted_command("-c"),
    "watch": _quoted_command(""),
    "entr": _quoted_command(""),
    "at": _at,
    "batch": _at,
    "trap": _trap,
    "alias": _alias,
    "cd": _cd,
    "pushd": _cd,
    "git": _git,
    "tar": _tar,
    "make": _make,
    "vim": _editor,
    "vi": _editor,
    "nvim": _editor,
    "ex": _editor,
    "awk": _text_tool,
    "gawk": _text_tool,
    "mawk": _text_tool,
    "sed": _text_tool,
    "nc": _netcat,
    "ncat": _netcat,
    "netcat": _netcat,
    "socat": _socat,
    "grep": lambda call, walk: _sifted(call, walk),
    "egrep": lambda call, walk: _sifted(call, walk),
    "rg": lambda call, walk: _sifted(call, walk),
    "read": lambda call, walk: _read_in(call, walk),
    "pip": lambda call, walk: _installed(call, walk),
    "pip3": lambda call, walk: _installed(call, walk),
    "pipx": lambda call, walk: _installed(call, walk),
    "npm": lambda call, walk: _installed(call, walk),
    "pnpm": lambda call, walk: _installed(call, walk),
    "yarn": lambda call, walk: _installed(call, walk),
    "npx": lambda call, walk: _installed(call, walk),
    "bunx": lambda call, walk: _installed(call, walk),
    "deno": lambda call, walk: _installed(call, walk),
    "uv": lambda call, walk: _installed(call, walk),
    "ln": _linked,
    "cp": _moved,
    "mv": _moved,
    "timeout": lambda call, walk: _timed(call, walk, "s k -signal -kill-after"),
    "flock": lambda call, walk: _timed(call, walk, "w E -timeout"),
}


def _timed(call: Call, walk: Walk, valued: str) -> Flow:
    inner = _behind_options(call.words[1:], set(valued.split()))[1:]
    if inner[:1] == ["-c"]:
        return _code(" ".join(inner[1:]), call, walk)
    return _run(inner, walk, call.stdin) if inner else SOMETHING
