"""What a program prints, where that can be told without running it: echo, printf, cat, ls, date."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from runtime.nervous import filters
from runtime.nervous.options import Line, family
from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNTOLD, Stream, listed, untold
from runtime.nervous.words import ansi

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

_NAMES = listed(
    "date whoami id hostname uname nproc wc basename arch getconf seq uuidgen tty expr bc md5sum sha1sum "
    "sha256sum cksum stat du df pidof logname uptime lsb_release dpkg-architecture free jobs node-version "
    "python-config"
)
_PATHS = listed("dirname realpath readlink fd fdfind tree locate")
_PASSES = listed(
    "cat tee sort uniq head tail sed awk gawk grep egrep fgrep cut nl column gzip gunzip zcat bzip2 xz "
    "base64 base32 xxd od hexdump jq yq openssl gpg tr rev tac fold fmt strings pv zstd lz4 iconv "
    "envsubst xargs paste less more perl python python3 dd buffer mbuffer uudecode ccrypt basenc brotli "
    "bat sponge"
)


def printed_by(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """What a program prints; of what is not known at least whether it comes from elsewhere."""
    known = KNOWN.get(family(line.program))
    if known is not None:
        found = known(shell, line, stdin)
        if found is not None:
            return found
    program = line.program
    if program in _NAMES:
        return Stream(None, shape=NAME)
    if program in _PATHS:
        return Stream(None, shape=INSIDE if program != "realpath" else ANY)
    if program in (
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "socat",
        "telnet",
        "ssh",
        "scp",
        "ftp",
        "lynx",
        "w3m",
        "fetch",
        "http",
        "https",
        "aria2c",
        "axel",
        "dig",
        "host",
        "nslookup",
        "openssl",
    ) and not _offline(line):
        return Stream(None, frozenset({"download"}))
    if program in ("printenv", "env"):
        return UNTOLD.tagged("environment")
    if program == "yes":
        return UNTOLD.tagged("endless")
    if program in ("ps", "pgrep") and (
        program == "ps" or line.has("-u", "-U", "-v") or not re.search(r"\w", " ".join(line.operands))
    ):
        return Stream(None, shape="*")  # every process
    if program in (
        "pg_dump",
        "pg_dumpall",
        "mysqldump",
        "mongodump",
        "zip",
        "7z",
        "cpio",
        "ar",
        "find",
        "git",
    ):
        return UNTOLD.tagged("file")
    if program in _PASSES:
        return _passed(shell, line, stdin)
    return UNTOLD


def _offline(line: Line) -> bool:
    return line.program == "openssl" and "s_client" not in line.words


def _passed(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """A filter prints something that was made of what it got: as much is known of where it came from."""
    tags = set(stdin.tags)
    if not stdin.tags or stdin is UNTOLD:
        files = (
            line.operands[1:] if family(line.program) in ("grep", "sed", "awk", "jq", "tr") else line.operands
        )
        for each in files:
            whole = shell.path(each)
            if whole in shell.files:
                tags |= shell.files[whole].tags
            else:
                tags |= {"file"}
    program = family(line.program)
    keeps = program in ("grep", "sort", "head", "tail", "uniq", "tac", "tee", "cat", "rg", "pv")
    same = keeps or (stdin.shape in (NAME, "*") and program in ("awk", "cut", "tr", "sed", "column", "paste"))
    shape = stdin.shape if same and not line.operands[1:] else ANY
    shape = NAME if shape == "*" and program in ("grep", "rg") else shape
    return Stream(None, frozenset(each for each in tags if not each.startswith("path:")), shape)


# ---- programs whose output is computed -------------------------------------------------------------------


def _echo(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words, escapes, newline = list(line.words), False, "\n"
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        newline = "" if "n" in flags else newline
        escapes = "e" in flags or (escapes and "E" not in flags)
    text = " ".join(words)
    return Stream((ansi(re.sub(r"\\0([0-7]{1,3})", r"\\\1", text)) if escapes else text) + newline)


def _printf(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = line.words[1:] if line.words[:1] == ["--"] else list(line.words)
    if not words:
        return NOTHING
    pattern, values = ansi(re.sub(r"\\0([0-7]{1,3})", r"\\\1", words[0])), words[1:]
    parts = re.split(r"(%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]))", pattern)
    if not any(each[:1] == "%" and each != "%%" for each in parts[1::2]):
        return Stream(pattern.replace("%%", "%"))
    out: list[str] = []
    rounds = 0
    while rounds == 0 or (values and rounds < 100):
        rounds += 1
        for part in parts:
            if not re.fullmatch(r"%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z])", part):
                out.append(part)
            elif part == "%%":
                out.append("%")
            else:
                out.append(_formatted(part, values.pop(0) if values else ""))
    return Stream("".join(out)[: filters.LONGEST])


def _formatted(form: str, value: str) -> str:
    kind = form[-1]
    if untold(value):
        return value
    if kind == "b":
        return ansi(re.sub(r"\\0([0-7]{1,3})", r"\\\1", value))
    if kind in "sq":
        width = re.fullmatch(r"%(-?)(\d{0,3})(?:\.(\d{1,3}))?[sq]", form)
        if not width:
            return value
        text = value[: int(width[3])] if width[3] else value
        return text.ljust(int(width[2] or 0)) if width[1] else text.rjust(int(width[2] or 0))
    if kind == "c":
        return value[:1]
    try:
        number = int(value or "0", 0)
        return {"x": f"{number:x}", "X": f"{number:X}", "o": f"{number:o}"}.get(kind, str(number))
    except ValueError:
        return NAME


def _cat(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if not line.operands or line.operands == ["-"]:
        return stdin
    out = NOTHING
    for each in line.operands:
        out = out.joined(stdin if each == "-" else filters.file_of(shell, each))
    return out


def _tee(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return stdin


def _pwd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return Stream(shell.cwd + "\n")


def _mktemp(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    where = line.value("-p", "--tmpdir") or next((each for each in line.operands if "/" in each), "")
    return Stream(f"{where.rsplit('/', 1)[0] if '/' in where else where or '/tmp'}/tmp.{NAME}\n")


def _basename(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if not line.operands or untold(line.operands[0]):
        return Stream(None, shape=NAME)
    name = line.operands[0].rstrip("/").rpartition("/")[2]
    return Stream((name.removesuffix(line.operands[1]) if len(line.operands) > 1 else name) + "\n")


def _dirname(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if not line.operands or untold(line.operands[0]):
        return Stream(None, shape=INSIDE)
    return Stream((line.operands[0].rstrip("/").rpartition("/")[0] or ".") + "\n")


def _ls(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if not line.operands:
        return Stream(None, shape=f"{shell.cwd}/*" if not line.has("-d") else INSIDE)
    first = line.operands[0]
    if any(each in first for each in "*?["):
        return Stream(None, shape=INSIDE if not first.startswith(("/", "~")) else first)
    return Stream(None, shape=f"{first.rstrip('/')}/*")


def _grep(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return Stream(None, shape=INSIDE) if line.has("-l", "-L", "--files-with-matches", "--files") else None


def _git(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = line.operands
    if (
        words[:1] == ["ls-files"]
        and not line.has("-o", "--others", "-d", "-m", "--deleted", "--modified")
        and not words[1:]
    ):
        return Stream(None, shape=f"{shell.cwd}/*")
    if words[:1] in (["ls-files"], ["diff"], ["diff-tree"], ["status"]) or (
        words[:1] == ["rev-parse"]
        and line.has("--show-toplevel", "--git-dir", "--show-cdup", "--show-prefix")
    ):
        return Stream(None, shape=INSIDE)
    if words[:1] in (
        ["rev-parse"],
        ["describe"],
        ["branch"],
        ["log"],
        ["merge-base"],
        ["symbolic-ref"],
        ["tag"],
        ["rev-list"],
    ):
        return Stream(None, shape=NAME)
    return None


def _dd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    source = next((each[3:] for each in line.words if each.startswith("if=")), "")
    return filters.file_of(shell, source) if source else stdin


def _tar(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return UNTOLD.tagged("file")


def _settings(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`ssh-agent -s`, `pyenv init -`: programs made to print settings for the shell that starts them."""
    words = SETTINGS.get(line.program, "-").split()
    return Stream("\n") if not words or (line.words and line.words[0] in words) else None


def _script(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`python -c "print('x')"`: a text that is printed as it stands."""
    text = line.value("-c", "-e", "-E")
    hit = re.fullmatch(
        r"\s*(?:print|puts|console\.log|echo)\s*\(?\s*(['\"])((?:(?!\1)[^\\])*)\1\s*\)?\s*;?\s*", text
    )
    return Stream(hit[2] + "\n") if hit else None


SETTINGS: Mapping[str, str] = {
    **dict.fromkeys(("ssh-agent", "dircolors", "register-python-argcomplete"), ""),
    **dict.fromkeys(("pyenv", "rbenv", "nodenv", "goenv", "jenv", "starship", "zoxide", "atuin"), "init"),
    **dict.fromkeys(("conda", "mamba"), "shell.bash shell.zsh shell.posix shell.fish"),
    "micromamba": "shell",
    "brew": "shellenv",
    "fnm": "env",
    "opam": "env",
    "luarocks": "path",
    "direnv": "hook export",
    "mise": "activate env hook-env",
    "minikube": "docker-env",
    "pip": "completion",
    **dict.fromkeys(("kubectl", "helm", "gh", "npm", "uv", "poetry", "docker"), "completion"),
}
Known = Callable[["Shell", Line, Stream], Stream | None]
KNOWN: Mapping[str, Known] = {
    **dict.fromkeys(SETTINGS, _settings),
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "bat": _cat,
    "tac": filters.tac,
    "rev": filters.rev,
    "tr": filters.tr,
    "sed": filters.sed,
    "head": filters.head,
    "tail": filters.head,
    "base64": filters.base64,
    "base32": filters.base32,
    "xxd": filters.xxd,
    "openssl": filters.openssl,
    "gunzip": filters.gunzip,
    "gzip": filters.gunzip,
    "zcat": filters.gunzip,
    "tee": _tee,
    "sort": filters.passes,
    "uniq": filters.passes,
    "fold": filters.passes,
    "strings": filters.passes,
    "pwd": _pwd,
    "mktemp": _mktemp,
    "basename": _basename,
    "dirname": _dirname,
    "ls": _ls,
    "grep": _grep,
    "rg": _grep,
    "git": _git,
    "dd": _dd,
    "tar": _tar,
    "python": _script,
    "perl": _script,
    "ruby": _script,
    "node": _script,
}
