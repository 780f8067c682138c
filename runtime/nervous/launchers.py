"""Programs that run others or speak to other machines, with a grammar of their own: `git`, `xargs`, `ssh`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.nervous import code
from runtime.nervous.hosts import loopback
from runtime.nervous.lexer import unescaped
from runtime.nervous.programs import Line, Reader, chosen, effects, rest_of
from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNTOLD, Act, Found, Stream

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

_BODIES = (
    *(
        "-d",
        "--data",
        "--data-binary",
        "--data-raw",
        "--data-urlencode",
        "--data-ascii",
        "--json",
        "-F",
        "--form",
    ),
    *("--form-string", "--post-data", "--post-file", "-T", "--upload-file"),
)


def _git(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """What git is told to run, and where it is; the rest of git is for rules."""
    words = line.operands
    command = words[0] if words else ""
    settings = [value.partition("=")[::2] for value in line.all("-c", "--config-env")]
    settings += [(words[-2], words[-1])] if command == "config" and len(words) > 2 else []
    for name, text in settings:
        if name.lower().startswith("alias."):
            shell.run_text(text[1:] if text.startswith("!") else f"git {text}")
        elif re.search(
            r"(?i)sshcommand|pager|editor|fsmonitor|hookspath|askpass|helper|textconv|cmd$|proxy$", name
        ):
            shell.note(Act("set", text=f"git {name}", words=(text,), shown=f"has git run {text}"))
            shell.run_text(text.lstrip("!"))
    raw = line.words
    for at, word in enumerate(raw):
        name, _, text = word.partition("=")
        text = text or (raw[at + 1] if at + 1 < len(raw) else "")
        if (
            (name in ("-x", "--exec") and command == "rebase")
            or (name in ("-x", "--extcmd") and command == "difftool")
            or (command == "filter-branch" and name.endswith("-filter"))
            or name in ("--upload-pack", "--receive-pack", "--open-files-in-pager")
        ):
            shell.run_text(text)
        elif command == "grep" and re.match(r"-O.", word):
            shell.run_text(word[2:])
        elif command == "diff" and "--no-index" in raw and not word.startswith("-") and word != "diff":
            shell.read(word, program="git")
    if words[:2] == ["submodule", "foreach"]:
        shell.run_text(" ".join(words[2:]))
    elif words[:2] == ["bisect", "run"]:
        shell.inner(raw[raw.index("run") + 1 :], UNTOLD)
    elif command == "clone" and len(words) > 1:
        name = words[2] if len(words) > 2 else words[1].rstrip("/").removesuffix(".git").rpartition("/")[2]
        shell.touch("write", name, "clones to", program="git")
        shell.fetched.append(shell.path(name))
    elif words[:1] == ["remote"] and len(words) > 3 and words[1] in ("add", "set-url"):
        shell.variables[f"git remote {words[2]}"] = [words[3]]
    elif command == "push" and len(words) > 1:
        where = shell.variables.get(f"git remote {words[1]}", words[1:2])[0]
        if re.search(r"://|@[\w.-]+:|^/|^\.\.", where):
            shell.send(where, UNTOLD.tagged("file"), "git")
    for value in line.all("-C", "--work-tree"):
        if command in ("clean", "checkout", "reset", "restore", "rm", "pull", "merge", "stash"):
            shell.touch("write", value, "changes files in", program="git")
    if command in ("worktree", "rm", "init") and line.has("-f", "--force"):
        for each in words[2:] if command == "worktree" else ():
            shell.touch("delete", each, "removes", "recursive", program="git")
    if line.has("--show-toplevel"):
        return Stream(shell.places.folder + "\n")
    paths = command in ("diff", "status", "ls-files", "diff-tree") or line.has("--git-dir")
    some = line.has("-o", "--others", "-d", "-m", "--deleted", "--modified") or words[1:]
    if command == "ls-files" and not some:
        return Stream(None, shape=f"{shell.cwd}/*")
    return Stream(None, frozenset({"file"}), INSIDE if paths else NAME)


def _containers(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for value in line.all("-v", "--volume", "--mount"):
        parts = dict(each.split("=", 1) for each in value.split(",") if "=" in each)
        source = parts.get("source") or parts.get("src") or value.partition(":")[0]
        if source.startswith(("/", "~", ".", ANY)):
            whole = shell.path(source)
            shown = f"gives a container {whole}"
            shell.note(Act("mount", line.program, (), whole, shell.places.sort(whole), shown=shown))
    for value in line.all("--env-file"):
        shell.read(value, program=line.program)
    if stdin.text:
        code.follow(shell, "container", stdin.text)
    words = [each for each in line.operands if each != "compose"]
    if words[:1] == ["exec"] and len(words) > 2 and words[2] in line.words:
        _apart(shell, [each for each in line.words[line.words.index(words[2]) :] if each != "--"], stdin)
    return UNTOLD


def _apart(shell: Shell, words: Sequence[str], stdin: Stream) -> None:
    """What is run inside a container is followed for what it does to databases; its files are its own."""
    kept, shell.found = shell.found, Found()
    try:
        with shell.apart():
            shell.inner(words, stdin)
    finally:
        found, shell.found = shell.found, kept
    for act in found.acts:
        if act.does == "sql" or (act.does == "run" and act.program in ("dropdb", "redis-cli", "mysqladmin")):
            shell.note(act)


def _ssh(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """What is run elsewhere cannot be seen; what is handed to it leaves this machine."""
    for host in line.operands[:1]:
        shell.connect(host, "shell", program=line.program)
        if stdin is not UNTOLD and stdin.text != "":
            shell.send(host, stdin, line.program)
    for value in line.all("-o"):
        name, _, text = value.replace("=", " ", 1).partition(" ")
        if name.lower() in ("proxycommand", "localcommand", "knownhostscommand"):
            shell.run_text(text.strip())
    for value in line.all("-i"):
        shell.touch("use", value, "uses the key", program=line.program)
    return Stream(None, frozenset({"download"}))


def _fetches(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`curl`, `wget`: what the table says, the method, and a file that is named after the address."""
    effects(shell, line, stdin)
    urls = chosen(line, ("args", "--url"))
    sent = chosen(line, [each for each in _BODIES if not line.has("-G", "--get")])
    method = (line.value("-X", "--request", "--method") or ("POST" if sent else "GET")).upper()
    local = frozenset({"loopback"} if urls and all(map(loopback, urls)) else ())
    shell.note(Act("request", line.program, text=method, tags=local, shown=f"{method} {' '.join(urls)}"))
    wget = line.program == "wget" and not line.has("-O", "--output-document")
    for each in urls if wget or line.has("-O", "--remote-name", "--remote-name-all") else ():
        name = each.rstrip("/").rpartition("/")[2].partition("?")[0] or "index.html"
        folder = line.value("-P", "--directory-prefix", "--output-dir") or "."
        shell.write(f"{folder}/{name}", UNTOLD.tagged("download"), program=line.program)
    return UNTOLD.tagged("download")


def _remote_copies(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`scp`, `rsync`: copies from and to other machines."""
    for value in line.all("-e", "--rsh", "-S", "-J"):
        if not re.match(r"ssh\b", value):
            shell.run_text(value)
    *sources, target = line.operands or [""]
    remote = re.compile(r"^(?:[\w.-]+@)?[\w.-]+:|^\w+://")
    for each in sources:
        known = shell.read(each, program=line.program) if not remote.match(each) else NOTHING
        if remote.match(target):
            shell.send(target, known.tagged("file"), line.program)
        if line.has("--remove-source-files"):
            shell.touch("delete", each, "removes", program=line.program)
    if sources and not remote.match(target):
        shell.touch("write", target, "copies to", program=line.program)
        if any(each.startswith("--delete") for each in line.options):
            shell.touch("delete", target, "removes what is not sent from", "recursive", program="rsync")
    return NOTHING


def _netcat(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    listens = line.has("-l", "--listen") or bool(re.search(r"(?i)-listen:", " ".join(line.words)))
    where = ":".join(line.operands[:2])
    does = "listen" if listens else "connect"
    shown = f"{line.program} {' '.join(line.words)}"
    shell.note(Act(does, line.program, text=where, tags=frozenset({"raw"}), shown=shown))
    if stdin.tags - {"piped"} or ((stdin.text or "") and not listens):
        shell.send(where, stdin, line.program)
    return Stream(None, frozenset({"download"}))


def _terminal(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`tmux new -d 'text'`, `screen -dm words`: a command in a terminal of its own."""
    words, _ = rest_of(line.words, line.spec.values)
    if line.program == "tmux":
        verb = words[:1]
        words, _ = rest_of(words[1:], frozenset(["-s", "-n", "-c", "-t", "-x", "-y", "-e", "-F", "-N"]))
        if not re.match(r"new|neww|split|respawn|run|send", "".join(verb)):
            return NOTHING
    words = [each for each in words if each not in ("Enter", "C-m")]
    return shell.run_text(" ".join(words)) if words else NOTHING


def _package(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`uv run x`, `npm exec -- x`, `npx x`: a program of an environment."""
    words = line.words
    if line.program not in ("npx", "bunx", "uvx", "pipx"):
        scripts = line.program in ("npm", "yarn", "pnpm", "bun")
        if words[:1] and words[0] in (("exec", "x", "dlx") if scripts else ("run", "exec", "x", "tool")):
            words = words[1:]
        else:
            return None
    words = words[words[:1] == ["run"] :]
    rest, options = rest_of(words, line.spec.values)
    for name, value in options:
        if name in ("-c", "--call"):
            shell.run_text(value)
    if rest and re.match(r"[A-Za-z@][\w@./^~-]*$", rest[0]) and "://" not in rest[0]:
        return shell.inner([re.sub(r"(?<=.)@[\w.^~-]+$", "", rest[0]), *rest[1:]], stdin)
    return None


def _env(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = list(line.words)
    while words:
        word = words.pop(0)
        if hit := re.fullmatch(r"(?:-[vi]*S|--split-string=?)(.*)", word, re.DOTALL):
            words = [*_split(hit[1] or (words.pop(0) if words else "")), *words]
        elif word in ("-u", "-C", "--unset", "--chdir"):
            given = words.pop(0) if words else "."
            shell.cwd = shell.path(given) if word in ("-C", "--chdir") else shell.cwd
        elif re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL):
            shell.assign(word.partition("=")[0], [word.partition("=")[2]])
        elif not word.startswith("-"):
            return shell.inner([word, *words], stdin)
    return UNTOLD.tagged("environment")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _xargs(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words, options = rest_of(line.words, line.spec.values)
    given = dict(options)
    if line.program == "parallel":
        for mark in (":::", "::::", ":::+"):
            if mark in words:
                items = words[words.index(mark) + 1 :]
                words = words[: words.index(mark)]
                stdin = Stream("\n".join(items)) if mark != "::::" else UNTOLD
        words = _split(words[0]) if len(words) == 1 else words
    for name in ("-a", "--arg-file"):
        stdin = shell.read(given[name]) if name in given else stdin
    place = given.get("-I") or ("{}" if "-i" in given or any("{}" in each for each in words) else "")
    flags = "".join(name for name, _ in options if not name.startswith("--"))
    by = unescaped(given.get("-d", given.get("--delimiter", "")))
    by = "\0" if "0" in flags or "--null" in given else by
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
            code.fed(shell, "make", stdin, "make")
        else:
            code.file(shell, "make", path)
    for word in line.operands:
        name, equals, text = word.partition("=")
        if equals and name in ("SHELL", "CC", "MAKE"):
            shell.note(Act("set", text=name, words=(text,), shown=f"has make run {text}"))
        elif equals:
            code.follow(shell, "make", f"$(shell {text[8:-1]})") if text.startswith("$(shell ") else None
    return NOTHING


LAUNCHERS: Mapping[str, Reader] = {
    "env": _env,
    "xargs": _xargs,
    "make": _make,
    "git": _git,
    "container": _containers,
    "ssh": _ssh,
    "fetch": _fetches,
    "remote-copy": _remote_copies,
    "netcat": _netcat,
    "terminal": _terminal,
    "package": _package,
}
"""These by what the table calls them."""
