"""Programs whose words have a grammar of their own: `find`, `tar`, `git`, `xargs`, `sh`.

`how` in the table of programs names the function. One that returns None leaves the rest to the table.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.safety import code
from runtime.safety.acts import ANY, ANYTHING, INSIDE, NAME, NOTHING, Act, Found, Stream, has_unknown
from runtime.safety.programs import Line, Reader, effects, printed, rest_of, sort_words
from runtime.safety.words import unescaped

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

_NARROWS = re.compile(
    r"-(?:i?name|i?path|wholename|i?regex|lname|[mac](?:time|min)|size|newer|empty|user|group|perm|inum|links|nouser)"
)
_EVERYTHING = ("*", ".*", "./*", "*.*", "?*")
_GIT_RUNS = re.compile(r"(?i)sshcommand|pager|editor|fsmonitor|hookspath|askpass|helper|textconv|cmd$|proxy$")
"""Settings of git whose value is a command."""
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:|\w+://")


def _find(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = [each for each in line.words if each not in ("-L", "-H", "-P", "-E", "-X")]
    end = next((at for at, word in enumerate(words) if word[:1] == "-" or word in ("(", "!", ",")), None)
    starts, rest = words[:end] or ["."], words[end:] if end is not None else []
    either = "-delete" in rest and ("-o" in rest or "-or" in rest)
    found = [_below(each) for each in starts]
    before = word = ""
    while rest:
        before, (word, *rest) = word, rest
        if _NARROWS.fullmatch(word):
            what = "" if word in ("-empty", "-nouser") or not rest else rest.pop(0)
            # a negation narrows nothing, and neither does one of two choices
            if before not in ("!", "-not") and what not in _EVERYTHING and not either:
                name = what if word in ("-name", "-iname", "-path", "-ipath", "-wholename") else ""
                found = [_below(each, name or "?") for each in starts]
        elif word == "-delete":
            for path in found:
                shell.touch("delete", path, "recursive", program="find")
        elif word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, each in enumerate(rest) if each in (";", "+")), len(rest))
            for path in found:
                shell.inner([each.replace("{}", path) for each in rest[:end]])
            rest = rest[end + 1 :]
        elif word in ("-fprint", "-fprint0", "-fls", "-fprintf") and rest:
            shell.touch("write", rest[0], program="find")
    return Stream(None, shape=found[0] if len(found) == 1 else ANY)


def _fd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    runs = ("-x", "-X", "--exec", "--exec-batch")
    end = next((at for at, each in enumerate(line.words) if each in runs), len(line.words))
    command = [each for each in line.words[end + 1 :] if each != ";"] or ["true"]
    if not any("{" in each for each in command):
        command.append("{}")
    for start in sort_words(line.program, line.words[:end], line.spec).operands[1:] or ["."]:
        path = _below(start, "?")
        shell.inner([re.sub(r"\{[./]{0,2}\}", path, each) for each in command])
    return printed(shell, line, stdin)


def _below(start: str, name: str = "") -> str:
    """What `find` finds: a folder with all below it, or the paths below it that a name selects."""
    if not name:
        return start
    base = "" if start == "/" else start.rstrip("/")
    below = INSIDE if base == "." else f"{base}/{INSIDE}"
    last = name.rpartition("/")[2]
    return f"{below}/{last}" if last.strip("*?") else below


def _ls(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if line.has("-A", "-a", "--all", "--almost-all"):
        return Stream(None, shape=(line.operands or ["."])[0])
    return None


def _processes(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    wide = line.program != "pgrep" or line.has("-u", "-U", "-v")
    named = re.search(r"\w", "".join(line.operands))
    return Stream(None, shape=NAME if named and not wide else "*")


def _parent(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    first = "".join(line.operands[:1])
    parent = first.rstrip("/").rpartition("/")[0] or "."
    return Stream(None, shape=INSIDE) if has_unknown(first) else Stream(f"{parent}\n")


def _tar(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if line.words and not line.words[0].startswith("-"):  # tar xzf file
        line = sort_words("tar", [f"-{line.words[0]}", *line.words[1:]], line.spec)
    archive, base = line.value("-f", "--file"), line.value("-C", "--directory", "--one-top-level")
    if line.has("-x", "--extract", "--get"):
        content = shell.read(archive, program="tar") if archive and archive != "-" else stdin
        target = "/" if line.has("-P", "--absolute-names") else base or "."
        shell.touch("write", target, "unpacks", program="tar", shown="unpacks to")
        shell.fetched += [shell.path(target)] if "download" in content.tags else []
    elif line.has("-c", "-r", "-u", "-A", "--create", "--append"):
        for operand in line.operands:
            path = f"{base}/{operand}" if base and not operand.startswith("/") else operand
            shell.read(path, program="tar")
            if line.has("--remove-files"):
                shell.touch("delete", path, "recursive", program="tar")
        if archive and archive != "-":
            shell.write(archive, ANYTHING.tagged("file"), program="tar")
    return ANYTHING.tagged("file")


def _link(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`ln -s`: what is below the link lies elsewhere."""
    effects(shell, line, stdin)
    to, link = (shell.path("".join(line.chosen(which)[:1])) for which in ("most", "last"))
    if line.has("-s", "--symbolic") and not shell.places.inside(to):
        shell.places.links[link] = to
    return NOTHING


def _shell(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = line.words
    at, inline = 0, False
    while at < len(words) and words[at][:1] in "-+" and words[at] not in ("-", "--"):
        word = words[at]
        if word in ("-O", "+O", "-o", "+o", "--rcfile", "--init-file"):
            if word.startswith("--") and at + 1 < len(words):
                code.follow_file(shell, "shell", words[at + 1])
            at += 1
        elif (not word.startswith("--") and "c" in word[1:]) or word in ("--command", "--commands"):
            inline = True
        elif re.fullmatch(r"-[a-z]*i[a-z]*|--interactive", word) and "download" in stdin.tags:
            shell.hide("download", "a shell is given to somebody elsewhere")
        at += 1
    options = words[:at]
    rest = words[at + (words[at : at + 1] in (["-"], ["--"])) :]
    if line.spec.language:  # a shell with another grammar: what reads as a usual one is followed
        shell.hide("unread", f"what the code of {line.program} does is not read for certain")
    out = ANYTHING
    with shell.apart():
        if inline:
            out = shell.run_text(rest[0], stdin, rest[2:]) if rest else NOTHING
        elif "-n" in options:
            return NOTHING  # only checks the syntax
        elif rest and "-s" not in options and rest[0] not in ("/dev/stdin", "/dev/fd/0", "-"):
            saved, shell.positional = shell.positional, tuple(rest[1:])
            code.follow_file(shell, "shell", rest[0])
            shell.positional = saved
        else:
            code.feed(shell, "shell", stdin, line.program)
    return out.tagged("shell")


def _env(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = list(line.words)
    while words:
        word = words.pop(0)
        if hit := re.fullmatch(r"(?:-[vi]*S|--split-string=?)(.*)", word, re.DOTALL):
            words = [*_split(hit[1] or (words.pop(0) if words else "")), *words]
        elif word in ("-u", "-C", "--unset", "--chdir"):
            folder = words.pop(0) if words else "."
            shell.cwd = shell.path(folder) if word in ("-C", "--chdir") else shell.cwd
        elif hit := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL):
            shell.assign(hit[1], [hit[2]])
        elif not word.startswith("-"):
            return shell.inner([word, *words], stdin)
    return ANYTHING.tagged("environment")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _xargs(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words, options = rest_of(line.words, line.spec.values)
    by_option = dict(options)
    if line.program == "parallel":
        for mark in (":::", "::::", ":::+"):
            if mark in words:
                items = words[words.index(mark) + 1 :]
                words = words[: words.index(mark)]
                stdin = Stream("\n".join(items)) if mark != "::::" else ANYTHING
        words = _split(words[0]) if len(words) == 1 else words
    for name in ("-a", "--arg-file"):
        stdin = shell.read(by_option[name]) if name in by_option else stdin
    place = by_option.get("-I") or ("{}" if "-i" in by_option or any("{}" in each for each in words) else "")
    null = "--null" in by_option or any(re.match(r"-[^-]*0", name) for name in by_option)
    by = "\0" if null else unescaped(by_option.get("-d", by_option.get("--delimiter", "")))
    items = [stdin.shape] if stdin.text is None else stdin.text.split(by or ("\n" if place else None))
    items = [each for each in items if each.strip()][:40] or [""]
    handed = Stream(None, stdin.tags & {"environment", "secret", "download"})
    if not words:
        return shell.run_text("\n".join(items)) if line.program == "parallel" else stdin
    if not place:
        return shell.inner([*words, *items], handed)
    out = NOTHING
    for item in items:
        out = shell.inner([each.replace(place, item) for each in words], handed)
    return Stream(None, out.tags, out.shape)


def _make(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for base in line.all("-C", "--directory"):
        shell.cwd = shell.path(base)
    for text in line.all("--eval", "-E"):
        code.follow(shell, "make", text)
    for path in line.all("-f", "--file", "--makefile"):
        if path in ("-", "/dev/stdin"):
            code.feed(shell, "make", stdin, "make")
        else:
            code.follow_file(shell, "make", path)
    for word in line.operands:
        name, equals, text = word.partition("=")
        if equals and name in ("SHELL", "CC", "MAKE"):
            shell.note(Act("set", text=name, words=(text,), shown=f"has make run {text}"))
        elif text.startswith("$(shell "):
            code.follow(shell, "make", text)
    return NOTHING


def _git(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """Commands that git is configured to run, and where; rules handle the rest of git."""
    words, raw = line.operands, line.words
    command = words[0] if words else ""
    settings = [value.partition("=")[::2] for value in line.all("-c", "--config-env")]
    settings += [(words[-2], words[-1])] if command == "config" and len(words) > 2 else []
    for name, text in settings:
        if name.lower().startswith("alias."):
            shell.run_text(text[1:] if text.startswith("!") else f"git {text}")
        elif _GIT_RUNS.search(name):
            shell.note(Act("set", text=f"git {name}", words=(text,), shown=f"has git run {text}"))
            shell.run_text(text.lstrip("!"))
    for at, word in enumerate(raw):
        if word == "-x" and command in ("rebase", "difftool"):
            shell.run_text("".join(raw[at + 1 : at + 2]))
        elif command == "grep" and re.match(r"-O.", word):
            shell.run_text(word[2:])
        elif command == "diff" and "--no-index" in raw and not word.startswith("-") and word != "diff":
            shell.read(word, program="git")
    if words[:2] == ["submodule", "foreach"]:
        shell.run_text(" ".join(words[2:]))
    elif words[:2] == ["bisect", "run"]:
        shell.inner(raw[raw.index("run") + 1 :])
    elif command == "clone" and len(words) > 1:
        name = words[2] if len(words) > 2 else words[1].rstrip("/").removesuffix(".git").rpartition("/")[2]
        shell.touch("write", name, program="git", shown="clones to")
        shell.fetched.append(shell.path(name))
    elif command == "remote" and len(words) > 3 and words[1] in ("add", "set-url"):
        shell.variables[f"git remote {words[2]}"] = [words[3]]
    elif command == "push" and len(words) > 1:
        where = shell.variables.get(f"git remote {words[1]}", words[1:2])[0]
        if re.search(r"://|@[\w.-]+:|^/|^\.\.", where):
            shell.send(where, ANYTHING.tagged("file"), "git")
    elif command == "worktree" and line.has("-f", "--force"):
        for each in words[2:]:
            shell.touch("delete", each, "recursive", program="git")
    if command in ("clean", "checkout", "reset", "restore", "rm", "pull", "merge", "stash"):
        for value in line.all("-C", "--work-tree"):
            shell.touch("write", value, program="git", shown="changes files in")
    if line.has("--show-toplevel"):
        return Stream(shell.places.folder + "\n")
    paths = command in ("diff", "status", "ls-files", "diff-tree") or line.has("--git-dir")
    some = line.has("-o", "--others", "-d", "-m", "--deleted", "--modified") or words[1:]
    if command == "ls-files" and not some:
        return Stream(None, shape=f"{shell.cwd}/*")
    return Stream(None, frozenset({"file"}), INSIDE if paths else NAME)


def _container(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for value in line.all("-v", "--volume", "--mount"):
        parts = dict(each.split("=", 1) for each in value.split(",") if "=" in each)
        source = parts.get("source") or parts.get("src") or value.partition(":")[0]
        if source.startswith(("/", "~", ".", ANY)):
            whole = shell.path(source)
            shown = f"gives a container {whole}"
            shell.note(Act("mount", line.program, (), whole, shell.places.sort(whole), shown=shown))
    words = [each for each in line.operands if each != "compose"]
    if words[:1] == ["exec"] and len(words) > 2 and words[2] in line.words:
        inner = [each for each in line.words[line.words.index(words[2]) :] if each != "--"]
        _in_container(shell, inner, stdin)
    return None


def _in_container(shell: Shell, words: Sequence[str], stdin: Stream) -> None:
    """Follow a command inside a container for its effect on databases; the container's files are its own."""
    outer_found, shell.found = shell.found, Found()
    try:
        with shell.apart():
            shell.inner(words, stdin)
    finally:
        found, shell.found = shell.found, outer_found
    for act in found.acts:
        if act.does == "sql" or (act.does == "run" and act.program in ("dropdb", "redis-cli", "mysqladmin")):
            shell.note(act)


def _fetch(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`curl`, `wget`: what the table says, the method, and a file named after the address."""
    effects(shell, line, stdin)
    urls = line.chosen("args", "--url")
    sent = [name for name, _ in line.values if name.startswith(("--data", "--post", "--form", "--body"))]
    sent += line.all("-d", "-F", "-T", "--json", "--upload-file")
    body = sent and not line.has("-G", "--get")
    method = line.value("-X", "--request", "--method") or ("POST" if body else "GET")
    shell.request(line.program, method.upper(), *urls)
    wget = line.program == "wget" and not line.has("-O", "--output-document")
    for url in urls if wget or line.has("-O", "--remote-name", "--remote-name-all") else ():
        name = url.rstrip("/").rpartition("/")[2].partition("?")[0] or "index.html"
        folder = line.value("-P", "--directory-prefix", "--output-dir") or "."
        shell.write(f"{folder}/{name}", ANYTHING.tagged("download"), program=line.program)
    return ANYTHING.tagged("download")


def _remote_copy(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`scp`, `rsync`: copies from and to other machines."""
    for value in line.all("-e", "--rsh", "-S", "-J"):
        if not re.match(r"ssh\b", value):
            shell.run_text(value)
    *sources, target = line.operands or [""]
    for source in sources:
        content = NOTHING if _REMOTE.match(source) else shell.read(source, program=line.program)
        if _REMOTE.match(target):
            shell.send(target, content.tagged("file"), line.program)
        if line.has("--remove-source-files"):
            shell.touch("delete", source, program=line.program)
    if sources and not _REMOTE.match(target):
        shell.touch("write", target, program=line.program, shown="copies to")
        if any(each.startswith("--delete") for each in line.options):
            shell.touch("delete", target, "recursive", program="rsync", shown="removes what is not sent from")
    return NOTHING


_ALL: tuple[Reader, ...] = (
    *(_find, _fd, _ls, _processes, _parent, _tar, _link, _shell, _env, _xargs, _make, _git, _container),
    *(_fetch, _remote_copy),
)
GRAMMARS = {each.__name__[1:].replace("_", "-"): each for each in _ALL}
"""The functions by the name that `how` gives in the table of programs."""
