"""Code of other languages on a command line: what it starts, deletes, or hides."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from runtime.nervous.decoding import NOTHING
from runtime.nervous.places import UNKNOWN
from runtime.nervous.reading import Call
from runtime.nervous.shell import Walk

_SHELLING = re.compile(
    r"""(?:\b(?:system|popen|exec\w*|shell_exec|passthru|proc_open|spawn\w*|check_output|check_call|Popen
            |getoutput|run|execSync|spawnSync|qx|os\.execute|io\.popen|Open3\.\w+)\s*\(?\s*|`)
        (?P<q>["'`]|q[qx]?\{|\[\s*["'])(?P<command>[^"'`}\]]*)""",
    re.VERBOSE,
)
_BACKTICK = re.compile(r"`([^`]+)`|%x[({\[]([^)}\]]+)")
_DELETING = re.compile(
    r"""\b(?P<what>rmtree|remove_tree|rm_rf|rm_r|unlink(?:Sync)?|rm(?:Sync|dirSync)?|delete|remove|rmdir
            |removedirs|emptyDir(?:Sync)?|File\.delete)
        \s*\(?\s*(?:glob\s*\(?\s*)?["'](?P<path>[^"']*)["']""",
    re.VERBOSE,
)
_WRITING = re.compile(r"""\bopen\s*\(\s*["'](?P<path>[^"']+)["']\s*,\s*["'](?P<mode>[wax+>][^"']*)["']""")
_PERL_WRITING = re.compile(r"""\bopen\b[^;]{0,80}?["']\s*(?:>>?)\s*["']?\s*,?\s*["']?(?P<path>/[^"']+)""")
_READING = re.compile(
    r"""\b(?:open|read|read_text|readFileSync|file_get_contents|File\.read|slurp|Path)
        \s*\(?\s*["'](?P<path>[~/][^"']*)["']""",
    re.VERBOSE,
)
_DECODING = re.compile(
    r"b64decode|base64|unhexlify|fromhex|decode64|atob|marshal\.loads|pack\(|zlib|rot13|Buffer\.from|chr\("
)
_RUNNING = re.compile(r"\b(?:exec|eval|compile|Function|system|popen|assert)\b\s*\(?")
_RUNNING_TEXT = re.compile(r"\b(?:exec|eval|Function|assert|system|popen)\b")
_SOCKET = re.compile(
    r"""/inet/tcp
        |\b(?:socket|TCPSocket|IO::Socket|net["']?\)?\.(?:connect|Socket|createConnection)|fsockopen)\b""",
    re.VERBOSE,
)
_TO_SHELL = re.compile(
    r"dup2|fdopen|system\s*\$|spawn\(|pty\.spawn|/bin/(?:ba)?sh|exec\s*[\"']?/bin|sh -i"
    r"|subprocess|child_process|\b(?:popen|system|exec\w*|spawn\w*|eval)\s*\(?\s*[\w$@]"
)
_FETCHING = re.compile(
    r"""urlopen|urllib|requests\.get|httpx|https?["']?\)?\.get|fetch\(|LWP|open-uri|URI\.open
        |file_get_contents\(["']http""",
    re.VERBOSE,
)
_ENVIRONMENT = re.compile(
    r"""os\.environ(?!\s*(?:\[|\.get))|process\.env(?!\s*[\[.])|ENV\.(?:to_h|each|inspect)|%ENV(?!\s*\{)
        |getenv\(\)""",
    re.VERBOSE,
)
_FORKING = re.compile(
    r"""\bfork\b[\s()]*\b(?:while|until)\b
        |\b(?:while|until|loop|for\s*\(\s*;\s*;)[^;]{0,40}\bfork\b
        |\bfork\b.{0,20}\bfor\b.{0,20}\b(?:iter|count|cycle|repeat)\b
        |\bfor\b.{0,20}\b(?:iter|count|cycle|repeat)\b.{0,20}\bfork\b""",
    re.VERBOSE,
)
_SENDING = re.compile(r"requests\.post|urlopen\([^)]*data|http\.request|\.post\(|sendall|\.send\(")
_READS = re.compile(r"\bopen\(|readFile|read_bytes")
_DELETES = re.compile(r"\b(?:remove|unlink|rmtree|rmdir|rmSync|unlinkSync)\s*\(?\s*[\w.$@\[]")
_EVERYTHING = re.compile(
    r"""\*\*|os\.walk|rglob\(["']\*|listdir\(\)|listdir\(["']\.|glob\(["']\*["']|readdirSync\(["']\.""",
    re.VERBOSE,
)
_HOMES = re.compile(
    r"""(?:expanduser\(\s*["']~(?P<a>[^"']*)
        |(?:homedir\(\)|process\.env\.HOME|ENV\[?["'{]?HOME["'}]?\]?|\$ENV\{HOME\}|Path\.home\(\))
         (?:\s*[+,./]\s*["'](?P<b>[^"']*))?
        |["'](?P<c>~/[^"']+)["'])""",
    re.VERBOSE,
)
_STARTS = re.compile(
    r"""(?:os|subprocess|pty|commands|sp|s|asyncio)\.
          (?:system|popen|run|call|check_\w+|Popen|getoutput|getstatusoutput|exec\w+|spawn\w*
            |create_subprocess_\w+)
        |(?:system|popen|Popen|check_output|check_call|getoutput)""",
    re.VERBOSE,
)
"""Functions of Python that start a command."""


def look_into(code: str, language: str, walk: Walk, call: Call) -> None:
    """Follow what a program's text does: what it starts, deletes or writes becomes a call too."""
    if language == "sed":
        _sed(code, walk, call)
        return
    shown = f"{call.name} … {code}"
    around = " ".join(call.words)
    if _SOCKET.search(code) and (_TO_SHELL.search(code) or language == "awk"):
        walk.reading.find("remote-shell", shown)
    if _FORKING.search(code):
        walk.reading.find("fork-bomb", shown)
    runs = bool(_RUNNING.search(code)) and language != "awk"
    if runs and _FETCHING.search(around):
        walk.reading.find("downloaded", shown)
    elif runs and _DECODING.search(code) and _RUNNING_TEXT.search(code):
        walk.reading.find("hidden", shown)
    sends = _SENDING.search(code)
    if sends and (_ENVIRONMENT.search(code) or _READS.search(code)):
        walk.reading.find("secret-sent", shown)
    elif _ENVIRONMENT.search(code):
        walk.reading.find("secret-sent" if _FETCHING.search(code) else "secrets-listed", shown)
    commands = list(_python(code, shown, walk)) if language == "python" else list(_commands(code))
    for command in commands:
        if command.strip():
            walk.reader.line(command, walk.scope.inner(), NOTHING, walk.depth + 1)
    _at_home(code, walk)
    if _DELETES.search(code) and _EVERYTHING.search(code):
        walk.run(["rm", "-r", "."], NOTHING)
    for hit in _DELETING.finditer(code):
        recursive = ["-rf"] if re.search(r"tree|rm_r|rf|emptyDir|recursive", hit["what"] + code) else []
        walk.run(["rm", *recursive, hit["path"]], NOTHING)
    for pattern in (_WRITING, _PERL_WRITING):
        for hit in pattern.finditer(code):
            walk.run(["tee", hit["path"]], NOTHING)
    for hit in _READING.finditer(code):
        walk.run(["cat", hit["path"]], NOTHING)


def _at_home(code: str, walk: Walk) -> None:
    """Paths in the home folder that the code builds: deleted, written or read, by the words around them."""
    for hit in _HOMES.finditer(code):
        path = hit["c"] or f"~/{(hit['a'] or hit['b'] or '').lstrip('/')}".rstrip("/")
        if re.search(r"rmtree|remove_tree|rm_r|rmSync|unlink|os\.remove", code):
            walk.run(["rm", "-rf", path], NOTHING)
        elif re.search(r"""["'][wa]\+?b?["']|write|append""", code):
            walk.run(["tee", path], NOTHING)
        else:
            walk.run(["cat", path], NOTHING)


def _commands(code: str) -> Iterator[str]:
    for hit in _SHELLING.finditer(code):
        yield hit["command"]
    for hit in _BACKTICK.finditer(code):
        yield hit[1] or hit[2]


def _python(code: str, shown: str, walk: Walk) -> Iterator[str]:
    """The commands that Python code starts; by its syntax tree where it has one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code.replace(UNKNOWN, "_"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from _commands(code)
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node.func)
        if _STARTS.fullmatch(name) and node.args:
            command = _text(node.args[0])
            if command is None and not isinstance(node.args[0], ast.Name):
                walk.reading.find("hidden", shown)
            elif command is not None:
                yield command
        if (
            name in ("exec", "eval", "compile", "__import__")
            and node.args
            and not isinstance(node.args[0], ast.Constant)
        ):
            walk.reading.find("hidden", shown)
        elif name in ("exec", "eval") and node.args and isinstance(node.args[0], ast.Constant):
            yield from _python(str(node.args[0].value), shown, walk)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _name(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    if (
        isinstance(node, ast.Call)
        and _name(node.func) in ("__import__", "importlib.import_module")
        and node.args
    ):
        return _text(node.args[0]) or ""
    if isinstance(node, ast.Call) and _name(node.func) == "getattr" and len(node.args) > 1:
        return f"{_name(node.args[0])}.{_text(node.args[1]) or ''}"
    return ""


def _text(node: ast.expr) -> str | None:
    """A constant, a sum of constants, or a list of words as a command line."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.List | ast.Tuple):
        parts = [_text(each) for each in node.elts]
        return " ".join(UNKNOWN if part is None else part for part in parts)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else UNKNOWN for v in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return _text(node.func.value)
    return None


def _sed(code: str, walk: Walk, call: Call) -> None:
    if hit := re.search(r"(?:^|;|\d|/|\$)\s*e\s+(\S.*)$", code):
        walk.reader.line(hit[1], walk.scope.inner(), NOTHING, walk.depth + 1)
    elif re.fullmatch(r"s(.).*\1.*\1\w*e\w*", code, re.DOTALL) and "-i" not in call.words[0]:
        flags = code.rpartition(code[1])[2]
        if "e" in flags:
            walk.reading.find("hidden", f"{call.name} {code}")
