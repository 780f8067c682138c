"""Programs that run another: `sudo`, `env`, `timeout`, `xargs`, `find -exec`, and what they run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from runtime.nervous.options import Line, family
from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNTOLD, Act, Stream, untold
from runtime.nervous.words import ansi

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

SIMPLE: Mapping[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -r -t -T -D -R -U --user --group --chdir --chroot", 0),
    "doas": ("-u -C", 0),
    "pkexec": ("--user", 0),
    "fakeroot": ("-l -s -i", 0),
    "nohup": ("", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "gtimeout": ("-s -k --signal --kill-after", 1),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p --class --classdata", 0),
    "chrt": ("-T -P -D", 1),
    "taskset": ("", 1),
    "numactl": ("", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "unbuffer": ("", 0),
    "setsid": ("", 0),
    "time": ("-f -o --format --output", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "coproc": ("", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "strace": ("-o -e -p -s -E -u -P -I -O -S -X -a -b", 0),
    "ltrace": ("-o -e -p -s -u -n -l -x", 0),
    "setarch": ("", 1),
    "linux64": ("", 0),
    "chronic": ("", 0),
    "eatmydata": ("", 0),
    "rlwrap": ("", 0),
    "systemd-run": ("-p --unit --property --uid --gid --slice --description -M -H -E --setenv", 0),
    "dbus-run-session": ("--config-file", 0),
    "caffeinate": ("-t -w", 0),
    "cpulimit": ("-l -p -e", 0),
    "proot": ("-r -b -w -R", 0),
    "firejail": ("", 0),
    "unshare": ("--root --wd -R -w -S -G", 0),
    "nsenter": ("-t --target --root --wd -S -G -r -w", 0),
    "chroot": ("--userspec --groups", 1),
    "xvfb-run": ("-n -s -e -f -p -w --server-args", 0),
    "torsocks": ("", 0),
    "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0),
    "entr": ("", 0),
    "hyperfine": ("-w -r -m -M -p -c -n --warmup --runs --prepare --export-json", 0),
    "daemonize": ("-c -e -o -p -l -u -E", 0),
    "tsp": ("", 0),
    "start-stop-daemon": ("-p -x -u -c -d --pidfile --exec --user --chdir --startas", 0),
    "sg": ("", 1),
    "ts": ("", 9),
    "watch": ("-n -d --interval", 0),
    "npx": ("-p --package -c --call", 0),
    "bunx": ("", 0),
    "uvx": ("--from --with -p --python", 0),
    "gosu": ("", 1),
    "machinectl": ("", 9),
}
_LOADERS = re.compile(r"ld(?:-linux[\w.-]*|-musl[\w.-]*|\.so[\w.]*)$")
_STRINGS = ("watch", "hyperfine", "entr")
"""Of these the words are put together and given to a shell."""
_FILTERS = (
    *("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-mtime", "-mmin", "-atime", "-amin"),
    *("-ctime", "-cmin", "-size", "-newer", "-empty", "-user", "-group", "-perm", "-lname", "-inum", "-links", "-nouser"),
)


def unwrap(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """What the program that is wrapped prints, once it was followed; None when this is no wrapper."""
    program = line.program
    special = SPECIAL.get(family(program))
    if special is not None:
        return special(shell, line, stdin)
    if program in SIMPLE or _LOADERS.match(program):
        _told(shell, line)
        return _simple(shell, line, stdin)
    return None


def _told(shell: Shell, line: Line) -> None:
    shell.note(
        Act("run", line.program, tuple(line.words), shown=f"runs {line.program} {' '.join(line.words)}".rstrip())
    )


def _inner(shell: Shell, words: list[str], stdin: Stream) -> Stream:
    from runtime.nervous.running import run

    return run(shell, words, stdin) if words else NOTHING


def _simple(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    valued, skipped = SIMPLE.get(line.program, ("", 0))
    words, options = _rest(line.words, set(valued.split()))
    for option in options:
        name, _, value = option.partition("=")
        if name in ("-E", "--setenv") and value:
            shell.assign(value.partition("=")[0], ((value.partition("=")[2],),))
    if line.program in ("command", "type") and any(each in ("-v", "-V") for each in options):
        return Stream(None, shape=NAME)
    words = words[skipped:]
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
        name, _, value = words[0].partition("=")
        shell.assign(name, ((value,),))
        words = words[1:]
    if line.program in _STRINGS:
        from runtime.nervous.running import execute

        return execute(shell, " ".join(words), stdin)
    if not words and line.program in ("sudo", "doas", "chroot", "nsenter", "unshare", "busybox"):
        return _inner(shell, ["sh"], stdin) if any(each in options for each in ("-i", "-s", "--login")) else NOTHING
    return _inner(shell, words, stdin)


def _rest(words: list[str], valued: set[str]) -> tuple[list[str], list[str]]:
    """The words after a wrapper's own options, and those options."""
    at = 0
    options: list[str] = []
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        options.append(word)
        if word in valued and at < len(words):
            options[-1] += f"={words[at]}"
            at += 1
    return words[at:], options


# ---- env, su, xargs, find and others with a form of their own --------------------------------------------


def _env(shell: Shell, line: Line, stdin: Stream) -> Stream:
    words = list(line.words)
    while words:
        word = words[0]
        if word in ("-S", "--split-string") or word.startswith(("-S", "--split-string=", "-vS", "-iS")):
            text = words[1] if word in ("-S", "--split-string") and len(words) > 1 else re.split("S|=", word, 1)[-1]
            rest = words[2:] if word in ("-S", "--split-string") else words[1:]
            words = [*_split(text), *rest]
        elif word in ("-u", "-C", "--unset", "--chdir"):
            if word in ("-C", "--chdir") and len(words) > 1:
                shell.cwd = shell.path(words[1])
            words = words[2:]
        elif re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL):
            name, _, value = word.partition("=")
            shell.assign(name, ((value,),))
            words = words[1:]
        elif word.startswith("-") and word != "--":
            words = words[1:]
        else:
            words = words[1:] if word == "--" else words
            break
    return _inner(shell, words, stdin) if words else UNTOLD.tagged("environment")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _su(shell: Shell, line: Line, stdin: Stream) -> Stream:
    from runtime.nervous.running import execute

    _told(shell, line)
    words = line.words
    for at, word in enumerate(words):
        if word in ("-c", "--command") and at + 1 < len(words):
            return execute(shell, words[at + 1], stdin)
        if word.startswith("--command="):
            return execute(shell, word.partition("=")[2], stdin)
    return NOTHING


def _strings(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`flock FILE -c TEXT`, `script -c TEXT`, and the rest as a command."""
    from runtime.nervous.running import execute

    words = line.words
    for at, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-zA-Z]*c|--command", word):
            return execute(shell, words[at + 1], stdin)
    rest, _ = _rest(words, {"-w", "-E", "--timeout"})
    if line.program == "flock":
        return _inner(shell, rest[1:], stdin)
    for path in rest[:1]:
        shell.touch("write", path, "writes", program=line.program)
    return NOTHING


def _xargs(shell: Shell, line: Line, stdin: Stream) -> Stream:
    valued = {"-I", "-n", "-P", "-L", "-d", "-s", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file"}
    valued |= {"-J", "-R", "-j", "--jobs", "--colsep", "--joblog"}
    words, options = _rest(line.words, valued)
    if line.program == "parallel":
        for mark in (":::", "::::", ":::+"):
            if mark in words:
                given = words[words.index(mark) + 1 :]
                words = words[: words.index(mark)]
                stdin = Stream("\n".join(given)) if mark != "::::" else UNTOLD
    for option in options:
        if option.startswith(("-a=", "--arg-file=")):
            stdin = shell.read(option.partition("=")[2])
    by = next((each.partition("=")[2] for each in options if each.startswith(("-d=", "--delimiter="))), "")
    by = "\0" if any(re.match(r"-[a-zA-Z]*0|--null", each) for each in options) else ansi(by)
    items = [stdin.shape] if stdin.text is None else stdin.text.split(by or None)
    items = [each for each in items if each.strip()][:40] or [""]
    handed = Stream(None, frozenset(each for each in stdin.tags if each in ("environment", "secret")))
    place = next((each.partition("=")[2] or each[2:] for each in options if each.startswith("-I")), "")
    place = place or ("{}" if "-i" in options or any("{}" in each for each in words) else "")
    if line.program == "parallel":
        if len(words) <= 1:
            from runtime.nervous.running import execute

            text = words[0] if words else "{}"
            return execute(shell, "\n".join(text.replace("{}", each) if "{}" in text else f"{text} {each}" for each in items))
        place = "{}" if any("{}" in each for each in words) else ""
    if not words:
        return stdin
    if place:
        printed = NOTHING
        for item in items:
            printed = _inner(shell, [each.replace(place, item) for each in words], handed)
        return Stream(None, printed.tags, printed.shape)
    return _inner(shell, [*words, *items], handed)


def _find(shell: Shell, line: Line, stdin: Stream) -> Stream:
    words = line.words
    at = 0
    while at < len(words) and words[at] in ("-L", "-H", "-P", "-E", "-X"):
        at += 1
    starts: list[str] = []
    while at < len(words) and not words[at].startswith("-") and words[at] not in ("(", "!", ","):
        starts.append(words[at])
        at += 1
    rest = words[at:]
    _told(shell, line)
    found = [_below(start, False) for start in starts or ["."]]
    either = "-o" in rest or "-or" in rest
    while rest:
        word, *rest = rest
        if word in _FILTERS and (word == "-empty" or rest[:1] not in (["*"], [".*"], ["./*"], ["*.*"], ["?*"])):
            # what stands behind an action, or beside another choice, does not narrow it
            if not (either and "-delete" in rest):
                name = rest[0] if rest and word in ("-name", "-iname", "-path", "-ipath", "-wholename") else ""
                found = [_below(start, True, name) for start in starts or ["."]]
            rest = rest if word in ("-empty", "-nouser") else rest[1:]
        elif word == "-delete":
            for path in found:
                shell.touch("delete", path, "removes", "recursive", program="find")
        elif word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, each in enumerate(rest) if each in (";", "+")), len(rest))
            for path in found:
                _inner(shell, [each.replace("{}", path) for each in rest[:end]], UNTOLD)
            rest = rest[end + 1 :]
        elif word in ("-fprint", "-fprint0", "-fls", "-fprintf") and rest:
            shell.touch("write", rest[0], "writes", program="find")
    return Stream(None, shape=found[0] if len(set(found)) == 1 else ANY)


def _below(start: str, filtered: bool, name: str = "") -> str:
    if not filtered:
        return f"{start.rstrip('/')}/*"
    base = "" if start == "/" else start.rstrip("/")
    below = INSIDE if base == "." else f"{base}/{INSIDE}"
    last = name.rpartition("/")[2]
    return f"{below}/{last}" if last.strip("*") else below


def _ssh(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """What is run elsewhere cannot be seen; what is handed to it leaves this machine."""
    _told(shell, line)
    if line.operands:
        host = line.operands[0]
        shell.connect(host, "shell", program=line.program)
        shell.note(
            Act("run", "ssh-command", tuple(line.operands[1:]), shown=f"runs on {host}: {' '.join(line.operands[1:])}")
        )
        if stdin is not UNTOLD and stdin.text != "":
            shell.send(host, stdin, line.program)
    for value in line.all("-o"):
        name, _, text = value.replace("=", " ", 1).partition(" ")
        if name.lower() in ("proxycommand", "localcommand", "knownhostscommand"):
            from runtime.nervous.running import execute

            execute(shell, text.strip())
    for value in line.all("-i"):
        shell.touch("use", value, "uses the key", program=line.program)
    return Stream(None, frozenset({"download"}))


def _later(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """`at`, `batch`, `crontab`: run later, outside of any run."""
    _told(shell, line)
    if stdin.text and line.program in ("at", "batch"):
        from runtime.nervous.running import execute

        execute(shell, stdin.text)
    return NOTHING


def _terminal(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`tmux new -d 'text'`, `screen -dm words`: a command in a terminal of its own."""
    from runtime.nervous.running import execute

    _told(shell, line)
    words, _ = _rest(line.words, {"-S", "-s", "-L", "-t", "-n", "-c", "-x", "-y", "-h", "-T", "-p"})
    if line.program == "tmux":
        verbs = ("new", "new-session", "neww", "new-window", "split-window", "respawn-pane", "run-shell", "run")
        if words[:1] and words[0] in verbs:
            words, _ = _rest(words[1:], {"-s", "-n", "-c", "-t", "-x", "-y", "-e", "-F"})
        elif words[:1] and words[0] in ("send-keys", "send"):
            words, _ = _rest(words[1:], {"-t", "-N"})
            words = [each for each in words if each not in ("Enter", "C-m")]
        else:
            return NOTHING
    return execute(shell, " ".join(words)) if words else NOTHING


def _git(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """Only what git is told to run; the rest of git is for rules."""
    from runtime.nervous.running import execute

    words = line.operands
    for value in line.all("-c", "--config-env"):
        name, _, text = value.partition("=")
        if name.lower().startswith("alias.") and text.startswith("!"):
            execute(shell, text[1:])
        elif name.lower().startswith("alias."):
            _inner(shell, ["git", *_split(text)], UNTOLD)
        elif re.search(r"(?i)sshcommand|pager|editor|fsmonitor|hookspath|askpass|helper|textconv|cmd$|proxy$", name):
            shell.note(Act("set", text=f"git {name}", words=(text,), shown=f"has git run {text}"))
            if text.startswith("!") or " " in text:
                execute(shell, text.lstrip("!"))
    if words[:2] == ["submodule", "foreach"]:
        execute(shell, " ".join(words[2:]))
    elif words[:2] == ["bisect", "run"]:
        _inner(shell, line.words[line.words.index("run") + 1 :], UNTOLD)
    elif words[:1] == ["rebase"]:
        raw = line.words
        for at, word in enumerate(raw):
            if word in ("-x", "--exec") and at + 1 < len(raw):
                execute(shell, raw[at + 1])
            elif word.startswith("--exec="):
                execute(shell, word.partition("=")[2])
    elif words[:1] == ["filter-branch"]:
        for at, word in enumerate(line.words[:-1]):
            if word.endswith("-filter"):
                execute(shell, line.words[at + 1])
    elif words[:1] == ["config"] and len(words) > 2:
        if words[2].startswith("!"):
            execute(shell, words[2][1:])
        elif words[1].startswith("alias."):
            _inner(shell, ["git", *_split(words[2])], UNTOLD)
    return None


def _editor(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`vim -c '!rm x'`, `ed` and `gdb` with commands."""
    from runtime.nervous.running import execute

    texts = [*line.all("-c", "--cmd", "-ex", "-iex", "-eval-command"), *(w[1:] for w in line.words if w[:1] == "+")]
    if family(line.program) == "vim" or line.program in ("ed", "gdb"):
        texts += (stdin.text or "").splitlines()
    for text in texts:
        if hit := re.match(r"\s*:?\s*(?:r|read|w|silent|sil|%|shell|call\s+system\()*\s*!?\s*(?:!|shell\s|system\()\s*(.+)", text):
            execute(shell, hit[1].strip().strip("'\")(") if "system(" in text else hit[1].strip())
        elif hit := re.match(r"\s*:?\s*(?:lua|py3?|python3?)\s+(.+)", text):
            from runtime.nervous.scripts import body

            body(shell, "python" if hit[0].strip(" :").startswith("py") else "lua", hit[1])
    return None


def _tar(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    for value in line.all("--checkpoint-action", "--to-command", "--use-compress-program", "-I", "--rsh-command", "-F"):
        if value.startswith("exec="):
            shell.hide("command", "tar is told to run something")
        if value.startswith("exec=") or value and not re.fullmatch(r"[\w.+-]+(?: -[\w-]+)*|dot|bell|echo.*", value):
            execute(shell, value.removeprefix("exec="))
    return None


def _make(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    text = "\n".join(line.all("--eval", "-E"))
    if line.value("-f", "--file") in ("-", "/dev/stdin"):
        if stdin.text is None:
            shell.hide("download" if "download" in stdin.tags else "code", "what make is handed is not known")
        text += f"\n{stdin.text or ''}"
    for recipe in re.findall(r"(?m)^\t[@-]*(.+)$|;[ \t]*[@-]*(.+)$|\$\(shell ([^)]*)\)", text):
        execute(shell, next(filter(None, recipe)))
    for word in line.operands:
        if word.startswith("SHELL="):
            shell.note(Act("set", text="SHELL", words=(word,), shown=f"has make run {word}"))
    return None


def _package(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`uv run x`, `poetry run x`, `bundle exec x`, `npm exec -- x`: a program of an environment."""
    words = line.words
    verbs = ("run", "exec", "x", "dlx", "run-script")
    if line.program in ("npm", "yarn", "pnpm", "bun") and words[:1] in (["run"], ["run-script"]):
        return None  # a script that package.json names
    if words[:1] and words[0] in verbs:
        rest, _ = _rest(words[1:], {"--with", "--from", "-p", "--python", "-n", "--extra", "--package", "-C"})
        if rest and re.search(r"[A-Za-z]", rest[0]):
            _told(shell, line)
            return _inner(shell, [re.sub(r"(?<=.)@[\w.^~-]+$", "", rest[0]), *rest[1:]], stdin)
    return None


def _nix(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    for at, word in enumerate(line.words[:-1]):
        if word in ("--run", "--command", "-c"):
            return execute(shell, line.words[at + 1] if word != "-c" else " ".join(line.words[at + 1 :]))
    return None


def _containers(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """What is run inside a container is followed for what it does to databases; its files are its own."""
    from runtime.nervous.values import Found

    words = line.operands
    words = words[1:] if words[:1] == ["compose"] else words
    if words[:1] != ["exec"] or len(words) < 3:
        return None
    raw = line.words
    start = next((at for at, each in enumerate(raw) if each == words[2]), len(raw))
    kept, shell.found = shell.found, Found()
    saved = shell.places.links
    try:
        with shell.apart():
            _inner(shell, [each for each in raw[start:] if each != "--"], stdin)
    finally:
        inner, shell.found = shell.found, kept
        shell.places.links = saved
    for act in inner.acts:
        if act.does == "sql" or (act.does == "run" and act.program in ("dropdb", "redis-cli", "mysqladmin", "mongosh")):
            shell.note(act)
    return None


def _sort(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for option in line.options:
        if option.startswith("--compress-program="):
            _inner(shell, [option.partition("=")[2]], UNTOLD)
    return None


def _rsync(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    for value in line.all("-e", "--rsh", "-S", "-J"):
        if untold(value) or not re.match(r"ssh\b", value):
            execute(shell, value)
    return None


def _split_command(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    for value in line.all("--filter", "-TT"):
        execute(shell, value, UNTOLD)
    return None


SPECIAL: Mapping[str, Callable[[Shell, Line, Stream], Stream | None]] = {
    "env": _env,
    "su": _su,
    "runuser": _su,
    "flock": _strings,
    "script": _strings,
    "xargs": _xargs,
    "parallel": _xargs,
    "find": _find,
    "ssh": _ssh,
    "at": _later,
    "batch": _later,
    "tmux": _terminal,
    "screen": _terminal,
    "byobu": _terminal,
    "git": _git,
    "vim": _editor,
    "ed": _editor,
    "gdb": _editor,
    "emacs": _editor,
    "tar": _tar,
    "make": _make,
    "sort": _sort,
    "rsync": _rsync,
    "scp": _rsync,
    "split": _split_command,
    "zip": _split_command,
    **dict.fromkeys(("uv", "poetry", "pipenv", "bundle", "npm", "hatch", "pdm", "conda", "rye", "pixi", "pipx", "bun"), _package),
    **dict.fromkeys(("nix-shell", "nix", "nix-env"), _nix),
    **dict.fromkeys(("docker", "kubectl", "docker-compose"), _containers),
}
