"""Programs that run another: `sudo`, `env`, `timeout`, `xargs`, `find -exec`, and what they run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from runtime.nervous.options import Line, family
from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNTOLD, Act, Stream, TooMuch, listed
from runtime.nervous.words import ansi

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

DEEPEST = 12
"""Programs that run programs that run programs."""
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
_FILTERS = listed(
    "-name -iname -path -ipath -wholename -regex -iregex -mtime -mmin -atime -amin -ctime -cmin -size "
    "-newer -empty -user -group -perm -lname -inum -links -nouser"
)

Wrapper = Callable[["Shell", Line, Stream], Stream | None]


def unwrap(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """What the program that is wrapped prints, once it was followed; None when this is no wrapper."""
    program = line.program
    special = _special().get(family(program))
    if special is not None:
        return special(shell, line, stdin)
    if program in SIMPLE or _LOADERS.match(program):
        told(shell, line)
        return _simple(shell, line, stdin)
    return None


@cache
def _special() -> Mapping[str, Wrapper]:
    from runtime.nervous.launchers import LAUNCHERS

    own = {"env": _env, "su": _su, "runuser": _su, "flock": _strings, "script": _strings}
    return {**own, "xargs": _xargs, "parallel": _xargs, "find": _find, **LAUNCHERS}


def told(shell: Shell, line: Line) -> None:
    """Note that a program is run."""
    shell.note(
        Act(
            "run",
            line.program,
            tuple(line.words),
            shown=f"runs {line.program} {' '.join(line.words)}".rstrip(),
        )
    )


def inner(shell: Shell, words: list[str], stdin: Stream) -> Stream:
    """Follow the command that is wrapped."""
    from runtime.nervous.running import run

    if not words:
        return NOTHING
    shell.wrapped += 1
    try:
        if shell.wrapped > DEEPEST:
            raise TooMuch
        return run(shell, words, stdin)
    finally:
        shell.wrapped -= 1


def _simple(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    valued, skipped = SIMPLE.get(line.program, ("", 0))
    words, options = rest_of(line.words, set(valued.split()))
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
        return (
            inner(shell, ["sh"], stdin)
            if any(each in options for each in ("-i", "-s", "--login"))
            else NOTHING
        )
    return inner(shell, words, stdin)


def rest_of(words: list[str], valued: set[str]) -> tuple[list[str], list[str]]:
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
        elif (last := _last_of(word, valued)) and at < len(words):
            options.append(f"{last}={words[at]}")
            at += 1
    return words[at:], options


def _last_of(word: str, valued: set[str]) -> str:
    """The option with a value that several letters behind one dash end in: -S of `-dmS name`; "" else."""
    letters = word[1:] if word[:2] != "--" else ""
    first = next((at for at, letter in enumerate(letters) if f"-{letter}" in valued), None)
    return f"-{letters[-1]}" if first is not None and first == len(letters) - 1 else ""


# ---- env, su, xargs, find and others with a form of their own --------------------------------------------


def _env(shell: Shell, line: Line, stdin: Stream) -> Stream:
    words = list(line.words)
    while words:
        word = words[0]
        if word in ("-S", "--split-string") or word.startswith(("-S", "--split-string=", "-vS", "-iS")):
            text = (
                words[1]
                if word in ("-S", "--split-string") and len(words) > 1
                else re.split("S|=", word, maxsplit=1)[-1]
            )
            rest = words[2:] if word in ("-S", "--split-string") else words[1:]
            words = [*split(text), *rest]
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
    return inner(shell, words, stdin) if words else UNTOLD.tagged("environment")


def split(text: str) -> list[str]:
    """The words of a text, as a shell would split it."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _su(shell: Shell, line: Line, stdin: Stream) -> Stream:
    from runtime.nervous.running import execute

    told(shell, line)
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
    rest, _ = rest_of(words, {"-w", "-E", "--timeout"})
    if line.program == "flock":
        return inner(shell, rest[1:], stdin)
    for path in rest[:1]:
        shell.touch("write", path, "writes", program=line.program)
    return NOTHING


def _xargs(shell: Shell, line: Line, stdin: Stream) -> Stream:
    valued = {
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-s",
        "-E",
        "-a",
        "--max-args",
        "--max-procs",
        "--delimiter",
        "--arg-file",
    }
    valued |= {"-J", "-R", "-j", "--jobs", "--colsep", "--joblog"}
    words, options = rest_of(line.words, valued)
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
    place = next((each.partition("=")[2] or each[2:] for each in options if each.startswith("-I")), "")
    by = by or ("\n" if place or "-i" in options else "")
    items = [stdin.shape] if stdin.text is None else stdin.text.split(by or None)
    items = [each for each in items if each.strip()][:40] or [""]
    handed = Stream(None, frozenset(each for each in stdin.tags if each in ("environment", "secret")))
    place = place or ("{}" if "-i" in options or any("{}" in each for each in words) else "")
    if line.program == "parallel":
        if len(words) <= 1:
            from runtime.nervous.running import execute

            text = words[0] if words else "{}"
            return execute(
                shell,
                "\n".join(text.replace("{}", each) if "{}" in text else f"{text} {each}" for each in items),
            )
        place = "{}" if any("{}" in each for each in words) else ""
    if not words:
        return stdin
    if place:
        printed = NOTHING
        for item in items:
            printed = inner(shell, [each.replace(place, item) for each in words], handed)
        return Stream(None, printed.tags, printed.shape)
    return inner(shell, [*words, *items], handed)


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
    told(shell, line)
    found = [_below(start, False) for start in starts or ["."]]
    either = "-o" in rest or "-or" in rest
    word = ""
    while rest:
        before, (word, *rest) = word, rest
        if word in _FILTERS and before in ("!", "-not"):
            rest = rest[1:]  # all but some narrows nothing
        elif word in _FILTERS and (
            word == "-empty" or rest[:1] not in (["*"], [".*"], ["./*"], ["*.*"], ["?*"])
        ):
            # what stands behind an action, or beside another choice, does not narrow it
            if not (either and "-delete" in rest):
                name = (
                    rest[0] if rest and word in ("-name", "-iname", "-path", "-ipath", "-wholename") else ""
                )
                found = [_below(start, True, name) for start in starts or ["."]]
            rest = rest if word in ("-empty", "-nouser") else rest[1:]
        elif word == "-delete":
            for path in found:
                shell.touch("delete", path, "removes", "recursive", program="find")
        elif word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, each in enumerate(rest) if each in (";", "+")), len(rest))
            for path in found:
                inner(shell, [each.replace("{}", path) for each in rest[:end]], UNTOLD)
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
