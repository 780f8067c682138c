"""What the call of any tool would do, by its name, its effects and the values of its arguments.

Shipped operations are judged by the names of their arguments. For other tools the names say little, so each
text is judged by what it looks like: a command, code, SQL, an address, a path.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from kernel.tools.tool import Tool
from runtime.safety import code, sql
from runtime.safety.acts import ANYTHING, Act, Stream, plain
from runtime.safety.commands import run
from runtime.safety.shell import Shell
from runtime.secrets.redaction import redact

MOST = 400
"""Most texts among the arguments of one call that are looked at."""
PROSE = re.compile(
    r"(?i)^(?:contents?|text|body|message|title|subject|new|old|data|diff|value|new_?str|old_?str|what|prompt|comment|description"
    r"|line|summary|notes?|label|q|pattern|glob|regex|format|caption|reason)$"
)
"""Names of arguments that hold prose or search terms."""
_TARGETS = re.compile(
    r"(?i)^(?:to|target|dest|destination|output|out|output_?(?:path|file)|new_?path|save_?(?:to|as)|.*_to|target_\w+)$"
)
_PATHS = re.compile(
    r"(?i)(?:^|_)(?:paths?|files?|folder|dir|directory|filename|file_?path|from|source|root|repo|location|uri)$"
)
_REMOVES = re.compile(r"(?:^|-)(?:remove|delete|rm|unlink|trash|rmdir|purge|erase)(?:-|$)")
_MOVES = re.compile(r"(?:^|-)(?:move|rename|mv)(?:-|$)")
_READS = re.compile(
    r"(?:^|-)(?:read|get|list|ls|search|find|grep|stat|show|view|describe|info|fetch|count|cat|head|tail|query|check|diff|tree)(?:-|$)"
)
_ADDRESS = re.compile(r"(?i)^(?:https?|wss?|ftp|gopher|file)://")
_PATH = re.compile(r"(?:/|~/|\.\./|~$|\.\.$|/$|file://)[^\s\0]*$")
_SHELL = re.compile(r"\s-{1,2}\w|[|;&`<>]|\$\(|\s[~/]|\.\.")
"""Signs that are common in commands and rare in sentences."""
_STRONG = re.compile(
    r"\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|>\s*[/~]|;\s*(?:rm|curl|wget|sudo)\s|&&\s*(?:rm|curl|wget|sudo)\s"
)
_CODE = re.compile(
    r"(?m)^\s*(?:import|from|def)\s\w|\b(?:subprocess|shutil|os|child_process|fs|requests)\.\w+\(|\brequire\(|__import__|\b(?:eval|fetch)\("
)
_MUTATION = re.compile(
    r"(?is)\bmutation\b[^{]*\{.*?\b(?:delete|remove|drop|destroy|purge|truncate|reset|archive|revoke|terminate|wipe)\w*"
)
_DESTROYS = re.compile(
    r"(?:delete|drop|destroy|remove|purge|truncate|wipe|terminate|erase|revoke|uninstall|flush|shutdown|reboot"
    r"|force[-_ ]?push|deprovision|decommission)(?:(?=[A-Z_-])[\w-]{1,40}|all|db)?"
    r"|(?:DELETE|DROP|DESTROY|REMOVE|PURGE|TRUNCATE|WIPE|TERMINATE|FLUSHALL|FLUSHDB)(?:[_ -][A-Z_ ]{1,40})?"
)
_MORE = ("gcloud", "az", "npm", "psql", "vault", "systemctl", "apt", "redis-cli")
_SUBCOMMANDS = frozenset(
    ("git", "gh", "kubectl", "oc", "helm", "docker", "podman", "terraform", "tofu", "pulumi", "aws", *_MORE)
)
"""Programs with subcommands that servers offer as tools."""
_ACTS = re.compile(
    r"(?i)^(?:commands?|cmds?|shell|scripts?|bash|command_?line|shell_?command|exec|run|powershell|input|source|expression|op"
    r"|operation|action|args|argv|arguments|statements?|code|program|snippet|job|steps?|payload|task|python)$"
)
"""Names of arguments that hold commands or code."""


def follow_call(
    tool: Tool, args: Mapping[str, Any], shell: Shell, environ: Mapping[str, str] | None = None
) -> None:
    """Note what a call would do."""
    if tool.scheme == "python" and tool.name == "bash":
        stdin = args.get("stdin")
        shell.line(str(args.get("command", "")), Stream(plain(stdin)) if isinstance(stdin, str) else ANYTHING)
        return
    effects = tool.effects_of(args)
    reads = not effects & {"write", "shell"}
    does = "read" if reads else "delete" if _REMOVES.search(tool.name) else "write"
    tags = {*(effects & {*tool.effects}), tool.scheme, *(["reads"] if reads else [])}
    tags |= {"destructive"} if tool.destructive else set()
    texts = [(name, plain(text)) for name, text in _texts(args)][:MOST]
    for name, text in texts:
        if tool.scheme == "python":
            _own_call(tool, args, shell, name, text, does)
        elif _follow_text(tool, args, shell, name, text, does):
            tags.add("destroys")
    if tool.scheme != "python":
        _as_command(tool, args, shell, texts)
    changed = [act.places for act in shell.found.acts if act.does in ("write", "delete", "read")]
    if changed and all("inside" in places for places in changed):
        tags |= {"local"}  # it names only files of the folder
    words = tuple(text for _, text in texts if len(text) < 200)[:20]
    shell.note(Act("call", tool.name, words, tags=frozenset(tags), shown=f"calls {tool.name}"))
    _note_secrets(tool, args, shell, os.environ if environ is None else environ)


def _texts(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text among the arguments with its name; a list of words also as one command."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping) and depth < 6:
        for key, each in value.items():
            yield from _texts(each, str(key), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 6:
        words = [each for each in value if isinstance(each, str)]
        if len(words) > 1 and len(words) == len(value) and not any(" " in each for each in words[:1]):
            yield name, shlex.join(words)
        for each in value:
            yield from _texts(each, name, depth + 1)


def _follow_text(tool: Tool, args: Mapping[str, Any], shell: Shell, name: str, text: str, does: str) -> bool:
    """Judge a text by what it looks like; returns whether it names a destructive operation."""
    if PROSE.match(name) or not text.strip():
        return False
    if _ADDRESS.match(text):
        _address(tool, args, shell, text)
        return False
    if _CODE.search(text):
        code.follow(shell, "python", text)
        code.follow(shell, "node", text)
    sql.statements(shell, tool.name, text)
    first = text.split(None, 1)[0].rpartition("/")[2]
    if (shell.table.names(first) and (_ACTS.match(name) or _SHELL.search(text))) or _STRONG.search(text):
        shell.line(text)
    if " " not in text and (_PATHS.search(name) or _TARGETS.match(name) or _PATH.match(text)):
        _path(tool, args, shell, name, text, does)
    return bool(_MUTATION.search(text) or _DESTROYS.fullmatch(text.strip()))


def _as_command(tool: Tool, args: Mapping[str, Any], shell: Shell, texts: list[tuple[str, str]]) -> None:
    """`git-push {"force": true}`, `kubectl {"args": ["delete", "x"]}`: a tool named after a program."""
    names = re.split(r"[-_./: ]+", tool.name.lower())
    parts = [{"redis": "redis-cli", "k8s": "kubectl"}.get(each, each) for each in names if each]
    at = next((at for at, each in enumerate(parts) if each in _SUBCOMMANDS), None)
    flags = [f"--{key}" for key, value in args.items() if value is True]
    acting = [text for name, text in texts if not PROSE.match(name) and len(text) < 400]
    words = [word for text in acting for word in text.split()]
    if at is not None:
        calls = ("cli", "run", "exec", "command", "execute", "call", "tool")
        run(
            shell,
            [parts[at], *(each for each in parts[at + 1 :] if each not in calls), *words[:100], *flags],
            ANYTHING,
        )
    elif words and re.fullmatch(r"[\w./-]+", words[0]) and len(args) > 1:
        named = next(
            (str(value) for name, value in args.items() if _ACTS.match(name) and isinstance(value, str)), ""
        )
        if named and " " not in named and shell.table.of(named.rpartition("/")[2]).known:
            run(shell, [named, *(each for each in words if each != named), *flags], ANYTHING)


def _address(tool: Tool, args: Mapping[str, Any], shell: Shell, text: str) -> None:
    shell.connect(text, program=tool.name)
    if text.lower().startswith("file:"):
        shell.read(text, program=tool.name)
    method = args.get("method")
    if isinstance(method, str):
        shell.request(tool.name, method.upper(), text)


def _own_call(tool: Tool, args: Mapping[str, Any], shell: Shell, name: str, text: str, does: str) -> None:
    """Judge an argument of a shipped operation by its name."""
    if _ADDRESS.match(text):
        _address(tool, args, shell, text)
    elif name in ("query", "sql") and sql.looks_like_sql(text):
        sql.statements(shell, tool.name, text, [shell.path(str(args.get("path", "")))])
    elif _PATHS.search(name) or _TARGETS.match(name) or (_PATH.match(text) and not PROSE.match(name)):
        _path(tool, args, shell, name, text, does)
    if tool.name == "patch" and name == "diff":
        for hit in re.finditer(r"(?m)^\+\+\+ (?:b/)?([^\t\n]+)", text):
            shell.touch("write", hit[1].strip(), program=tool.name, shown="changes")


def _path(tool: Tool, args: Mapping[str, Any], shell: Shell, name: str, text: str, does: str) -> None:
    if not text or len(text) > 4_000 or "\n" in text:
        return
    whole = shell.path(text)
    ships = tool.scheme == "python"
    if shell.places.drafted(whole) and (ships or not whole.endswith("/dangers.md")):
        return  # a change of the system is a draft, which the kernel tests by its sample
    if ships and "protected" in shell.places.sort(whole):
        return  # the operation itself refuses
    other = any(_TARGETS.match(each) for each in (*tool.args, *args) if each != name)
    if _TARGETS.match(name):
        shell.touch("read" if does == "read" else "write", text, program=tool.name)
    elif does == "delete":
        shell.touch("delete", text, "recursive", program=tool.name)
    elif _MOVES.search(tool.name) and does != "read":
        shell.move(text, tool.name)
    elif (
        does == "read" or other or tool.name == "patch" or _READS.search(tool.name) or not _PATHS.search(name)
    ):
        shell.read(text, program=tool.name)
    else:
        shell.touch("write", text, program=tool.name)


def _note_secrets(tool: Tool, args: Mapping[str, Any], shell: Shell, environ: Mapping[str, str]) -> None:
    """Note keys and tokens in arguments that leave for the network or another program."""
    if "network" not in tool.effects and tool.scheme not in ("mcp", "command"):
        return
    if any(redact(text) != text for _, text in _texts(args)):
        shown = f"{tool.name} is handed what looks like a key or a password"
        shell.note(Act("secret-text", tool.name, shown=shown))
