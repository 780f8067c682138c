"""Programs that run something besides what they are for: git, tar, make, editors, ssh, tmux, uv."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.nervous.options import Line, family
from runtime.nervous.values import NOTHING, UNTOLD, Act, Stream, untold
from runtime.nervous.wrappers import Wrapper, inner, rest_of, split, told

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell


def _ssh(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """What is run elsewhere cannot be seen; what is handed to it leaves this machine."""
    told(shell, line)
    if line.operands:
        host = line.operands[0]
        shell.connect(host, "shell", program=line.program)
        shell.note(
            Act(
                "run",
                "ssh-command",
                tuple(line.operands[1:]),
                shown=f"runs on {host}: {' '.join(line.operands[1:])}",
            )
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
    """`at`, `batch`, `crontab`: run _later, outside of any run."""
    told(shell, line)
    if stdin.text and line.program in ("at", "batch"):
        from runtime.nervous.running import execute

        execute(shell, stdin.text)
    return NOTHING


def _terminal(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`tmux new -d 'text'`, `screen -dm words`: a command in a terminal of its own."""
    from runtime.nervous.running import execute

    told(shell, line)
    words, _ = rest_of(line.words, {"-S", "-s", "-L", "-t", "-n", "-c", "-x", "-y", "-h", "-T", "-p"})
    if line.program == "tmux":
        verbs = (
            "new",
            "new-session",
            "neww",
            "new-window",
            "split-window",
            "respawn-pane",
            "run-shell",
            "run",
        )
        if words[:1] and words[0] in verbs:
            words, _ = rest_of(words[1:], {"-s", "-n", "-c", "-t", "-x", "-y", "-e", "-F"})
        elif words[:1] and words[0] in ("send-keys", "send"):
            words, _ = rest_of(words[1:], {"-t", "-N"})
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
            inner(shell, ["git", *split(text)], UNTOLD)
        elif re.search(
            r"(?i)sshcommand|pager|editor|fsmonitor|hookspath|askpass|helper|textconv|cmd$|proxy$", name
        ):
            shell.note(Act("set", text=f"git {name}", words=(text,), shown=f"has git run {text}"))
            if text.startswith("!") or " " in text:
                execute(shell, text.lstrip("!"))
    if words[:2] == ["submodule", "foreach"]:
        execute(shell, " ".join(words[2:]))
    elif words[:2] == ["bisect", "run"]:
        inner(shell, line.words[line.words.index("run") + 1 :], UNTOLD)
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
            inner(shell, ["git", *split(words[2])], UNTOLD)
    return None


def _editor(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`vim -c '!rm x'`, `ed` and `gdb` with commands."""
    from runtime.nervous.running import execute

    texts = [
        *line.all("-c", "--cmd", "-ex", "-iex", "-eval-command"),
        *(w[1:] for w in line.words if w[:1] == "+"),
    ]
    if family(line.program) == "vim" or line.program in ("ed", "gdb"):
        texts += (stdin.text or "").splitlines()
    for text in texts:
        if hit := re.match(
            r"\s*:?\s*(?:r|read|w|silent|sil|%|shell|call\s+system\()*\s*!?\s*(?:!|shell\s|system\()\s*(.+)",
            text,
        ):
            execute(shell, hit[1].strip().strip("'\")(") if "system(" in text else hit[1].strip())
        elif hit := re.match(r"\s*:?\s*(?:lua|py3?|python3?)\s+(.+)", text):
            from runtime.nervous.scripts import body

            body(shell, "python" if hit[0].strip(" :").startswith("py") else "lua", hit[1])
    return None


def _tar(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    for value in line.all(
        "--checkpoint-action", "--to-command", "--use-compress-program", "-I", "--rsh-command", "-F"
    ):
        if value.startswith("exec="):
            shell.hide("command", "tar is told to run something")
        elif value in line.all("--to-command"):
            shell.hide("code", "tar hands what it unpacks to a program")
        if value.startswith("exec=") or (
            value and not re.fullmatch(r"[\w.+-]+(?: -[\w-]+)*|dot|bell|echo.*", value)
        ):
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
        rest, _ = rest_of(
            words[1:], {"--with", "--from", "-p", "--python", "-n", "--extra", "--package", "-C"}
        )
        if rest and re.search(r"[A-Za-z]", rest[0]):
            told(shell, line)
            return inner(shell, [re.sub(r"(?<=.)@[\w.^~-]+$", "", rest[0]), *rest[1:]], stdin)
    return None


def _pager(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    from runtime.nervous.running import execute

    for at, word in enumerate(line.words):
        if word[:1] == "+" and "!" in word:
            execute(shell, word.partition("!")[2])
        if word in ("-P", "--pager", "-H") and at + 1 < len(line.words):
            execute(shell, line.words[at + 1])
        elif word.startswith(("--pager=", "--html=")):
            execute(shell, word.partition("=")[2])
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
            inner(shell, [each for each in raw[start:] if each != "--"], stdin)
    finally:
        found, shell.found = shell.found, kept
        shell.places.links = saved
    for act in found.acts:
        if act.does == "sql" or (
            act.does == "run" and act.program in ("dropdb", "redis-cli", "mysqladmin", "mongosh")
        ):
            shell.note(act)
    return None


def _sort(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for option in line.options:
        if option.startswith("--compress-program="):
            inner(shell, [option.partition("=")[2]], UNTOLD)
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


LAUNCHERS: Mapping[str, Wrapper] = {
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
    **dict.fromkeys(
        ("uv", "poetry", "pipenv", "bundle", "npm", "hatch", "pdm", "conda", "rye", "pixi", "pipx", "bun"),
        _package,
    ),
    **dict.fromkeys(("man", "less", "more", "most"), _pager),
    **dict.fromkeys(("nix-shell", "nix", "nix-env"), _nix),
    **dict.fromkeys(("docker", "kubectl", "docker-compose"), _containers),
}
