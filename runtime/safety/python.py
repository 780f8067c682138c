"""Python code read by `ast`: each call is followed as the shell command that does the same."""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.safety import sql
from runtime.safety.acts import ANY, ANYTHING, NAME, Act, Stream, has_unknown
from runtime.safety.words import secret

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

LONGEST = 30_000
NODES = 4_000
"""Most nodes of one text that are looked at."""
_COMMANDS = {
    "sh -c {0}": "os.system os.popen subprocess.getoutput subprocess.getstatusoutput commands.getoutput"
    " pty.spawn pexpect.spawn pexpect.run asyncio.create_subprocess_shell",
    "rm {0}": "os.remove os.unlink os.rmdir os.removedirs send2trash.send2trash",
    "rm -r {0}": "shutil.rmtree",
    "truncate {0}": "os.truncate",
    "mkdir {0}": "os.mkdir os.makedirs os.mknod os.mkfifo",
    "mv {0} {1}": "os.rename os.replace os.renames shutil.move",
    "cp {0} {1}": "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree",
    "ln {0} {1}": "os.symlink os.link",
    "chmod {1} {0}": "os.chmod os.lchmod",
    "chown {1} {0}": "os.chown os.lchown shutil.chown os.setxattr",
    "kill {0}": "os.kill os.killpg",
    "mail {0}": "smtplib.SMTP smtplib.SMTP_SSL",
    "ftp {0}": "ftplib.FTP ftplib.FTP_TLS",
    "ssh {0}": "paramiko.SSHClient",
    "telnet {0}": "telnetlib.Telnet",
}
_METHODS = {
    "rm {path}": "unlink rmdir",
    "rm -r {path}": "rmtree",
    "mv {path} {0}": "rename replace",
    "touch {path}": "write_text write_bytes touch mkdir",
    "cat {path}": "read_text read_bytes",
}
"""Methods of paths."""
_COMMAND = {name: words for words, names in _COMMANDS.items() for name in names.split()}
_METHOD = {name: words for words, names in _METHODS.items() for name in names.split()}
_OPENS = re.compile(r"(?:(?:io|builtins|codecs|gzip|os)\.)?open")
_STARTS = re.compile(
    r"subprocess\.(?:run|call|check_call|check_output|Popen)|asyncio\.create_subprocess_exec|sh\.Command"
    r"|os\.(?:exec|spawn|posix_spawn)\w*"
)
_REQUESTS = re.compile(
    r"(?:requests|httpx)\.(?:post|put|patch|delete|get|head|request)|http\.client\.HTTPS?Connection"
    r"|urllib\.request\.(?:urlopen|Request|urlretrieve)"
)
_SOCKETS = re.compile(r"socket\.(?:socket|create_connection|socketpair)|asyncio\.open_connection")
_EVALUATES = re.compile(r"(?:builtins\.)?(?:eval|exec)|compile|runpy\.run_path|code\.interact|execfile")
_HIDDEN = re.compile(r"(?:marshal|pickle|dill)\.loads|ctypes\..*")
_DYNAMIC = re.compile(r"id='(?:getattr|__import__|globals|vars|__builtins__)'|'__dict__'|'modules'")
"""Ways to a function by a name that may be computed, in the dump of a syntax tree."""
_VARIABLE = re.compile(r"(?:\benviron(?:\.get|\.pop)?|getenv)\s*[(\[]\s*['\"](\w+)")
_ENVIRONMENT = re.compile(r"(['\"]\s+(?:not\s+)?in\s+|\benv=|\*\*)?(?:\bos\.)?\benviron\b(?!\s*[.\[])")
"""A use of all variables, except (group 1) where one is looked for, or another program gets them."""
_SENT = ("data", "files", "json", "params", "headers", "content")
"""Arguments of a request whose values are sent."""
_KEPT = ("decode", "encode", "strip", "rstrip", "split", "expanduser", "expandvars", "resolve", "absolute")
"""Methods that return about the text that they are called on."""
_LOOPS = (ast.While, ast.For, ast.ListComp, ast.GeneratorExp, ast.SetComp)


def read(shell: Shell, text: str) -> bool:
    """Note what a text of Python does; returns False if it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text) if len(text) <= LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    nodes = list(ast.walk(tree)) if tree else []
    if tree is None or len(nodes) > NODES:
        return False
    for name in filter(secret, _VARIABLE.findall(text)):
        shell.note(Act("secret", text=name, shown=f"uses the variable {name}"))
    if any(not hit[1] for hit in _ENVIRONMENT.finditer(text)):
        shell.note(Act("secret", text="os.environ", shown="reads the whole environment"))
    _Reader(shell, nodes).follow()
    return True


class _Reader:
    """The names that a text of Python imports or sets, and what its calls do with them."""

    def __init__(self, shell: Shell, nodes: Sequence[ast.AST]) -> None:
        self.shell = shell
        self.nodes = nodes
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.base: list[str] = []  # the database that the text opens
        self.left = NODES

    def follow(self) -> None:
        """Note imports and assignments first, then follow every call."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    self.names[alias.asname or first] = alias.name if alias.asname else first
            elif isinstance(node, ast.ImportFrom):
                self.names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                self._assign(node.targets, node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value:
                self._assign([node.target], node.value)
            elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
                self.values[node.target.id] = self.text(node.iter, item=True)
            elif isinstance(node, ast.Call) and self.name(node.func) in ("sqlite3.connect", "duckdb.connect"):
                self.base = [self.shell.path(self.text(each)) for each in node.args[:1]]
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self._call(node)

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        name = self.name(value)
        rebuildable = (
            name in self.names.values() or "." in name or _OPENS.fullmatch(name) or _EVALUATES.fullmatch(name)
        )
        for target in targets:
            if isinstance(target, ast.Name) and rebuildable and not has_unknown(name):
                self.names[target.id] = name
            elif isinstance(target, ast.Name):
                self.values[target.id] = self.text(value)

    def name(self, node: ast.AST) -> str:
        """The full name of what is called: `from os import system as s; s(…)` is os.system."""
        match node:
            case ast.Name():
                return self.names.get(node.id, node.id)
            case ast.Attribute():
                base = self.name(node.value)
                return f"{base}.{node.attr}" if base else ""
            case ast.Call(args=[first, *rest]):
                called = self.name(node.func)
                if called in ("__import__", "importlib.import_module"):
                    return self.text(first)
                return f"{self.name(first)}.{self.text(rest[0])}" if called == "getattr" and rest else ""
            case _:
                return ""

    def text(self, node: ast.AST, *, item: bool = False) -> str:
        """The text that an expression gives, with marks for unknown parts; `item`: one of its elements."""
        self.left -= 1
        if self.left < 0:
            return ANY
        match node:
            case ast.Constant():
                return node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)
            case ast.Name():
                return self.values.get(node.id, ANY)
            case ast.BinOp(op=ast.Add()):
                return f"{self.text(node.left)}{self.text(node.right)}"[:4_000]
            case ast.BinOp(op=ast.Div()):
                return posixpath.join(self.text(node.left), self.text(node.right))[:4_000]
            case ast.JoinedStr():
                return "".join(map(self.text, node.values))
            case ast.FormattedValue() | ast.Starred():
                return self.text(node.value)
            case ast.List() | ast.Tuple():
                texts = [self.text(each) for each in node.elts[:100]]
                if item:
                    risky = [each for each in texts if each.startswith(("/", "~", "..", ANY)) or each == "."]
                    return (risky or texts or [ANY])[0]
                return " ".join(each if has_unknown(each) else shlex.quote(each) for each in texts)
            case ast.Attribute(attr="parent"):
                return f"{self.text(node.value)}/.."
            case ast.Attribute(attr="name" | "stem" | "suffix"):
                return NAME
            case ast.Call(
                func=ast.Name(id="sorted" | "list" | "set" | "reversed" | "iter"), args=[first, *_]
            ):
                return self.text(first, item=item)
            case ast.Call():
                return self._returned(node)
            case _:
                return ANY

    def _returned(self, node: ast.Call) -> str:
        """The text that a call returns."""
        name, args = self.name(node.func), [self.text(each) for each in node.args]
        last = name.rpartition(".")[2]
        if last in ("Path", "PurePath", "PosixPath", "str", "bytes", "fspath", "expanduser", "expandvars"):
            return posixpath.join("", *args).replace("$HOME", "~") or "."
        if name.startswith("os.path.") or name in ("shlex.split", "glob.glob", "glob.iglob"):
            return posixpath.join("", *args)
        if last in ("home", "cwd", "getcwd"):
            return "~" if last == "home" else "."
        if name in ("os.listdir", "os.scandir"):
            return f"{args[0] if args else '.'}/*"
        if not isinstance(node.func, ast.Attribute):
            return ANY
        base = self.text(node.func.value)
        match node.func.attr:
            case "joinpath":
                return posixpath.join(base, *args)
            case "glob" | "rglob" | "iterdir":
                return f"{base}/{args[0] if args else '*'}"
            case kept:
                return (base or ".") if kept in _KEPT else ANY

    def _call(self, node: ast.Call) -> None:
        shell, name = self.shell, self.name(node.func)
        shell.spend()
        first = self._argument(node, 0, "args", "path", "cmd", "command", "url") or ANY
        if words := _COMMAND.get(name):
            self._run(words, node, first)
        elif _STARTS.fullmatch(name):
            self._start(name, node)
        elif _OPENS.fullmatch(name):
            writes = re.search(r"[wax+]|O_WR", self._argument(node, 1, "mode"))
            self._run("touch {0}" if writes else "cat {0}", node, first)
        elif _REQUESTS.fullmatch(name):
            self._request(name, node)
        elif _EVALUATES.fullmatch(name):
            self._evaluate(node, first)
        elif _SOCKETS.fullmatch(name):
            shell.note(Act("connect", "python", tags=frozenset({"socket"}), shown="opens a socket"))
        elif name in ("os.fork", "os.forkpty"):
            if any(isinstance(each, _LOOPS) for each in self.nodes):
                shell.hide("fork", "it starts processes for ever")
        elif _HIDDEN.fullmatch(name) or ANY in name or (not name and _DYNAMIC.search(ast.dump(node.func))):
            shell.hide("code", "which function Python calls is not known")
        elif isinstance(node.func, ast.Attribute):
            self._method(node.func, node, first)

    def _argument(self, node: ast.Call, at: int, *names: str) -> str:
        """The text of an argument by position or name, or ""."""
        if at < len(node.args):
            return self.text(node.args[at])
        return next((self.text(each.value) for each in node.keywords if each.arg in names), "")

    def _run(self, words: str, node: ast.Call, first: str, path: str = "") -> None:
        """Follow a command with the arguments of a call; a number among them is a mode."""
        second = self._argument(node, 1) or ANY
        values = {"{path}": path, "{0}": first, "{1}": f"{int(second):o}" if second.isdecimal() else second}
        self.shell.inner([values.get(each, each) for each in words.split()])

    def _start(self, name: str, node: ast.Call) -> None:
        """Follow a program that is started with its words or by a line of shell."""
        arguments = node.args or [each.value for each in node.keywords if each.arg == "args"]
        listed = next((each.elts for each in arguments if isinstance(each, (ast.List, ast.Tuple))), None)
        if name.startswith("os.") and not listed:  # the program, then its arguments beginning with its name
            arguments = arguments[name.startswith("os.spawn") :]
            listed = [*arguments[:1], *arguments[2:]]
        if listed:
            text = self._argument(node, 99, "input")
            stdin = Stream(text) if text and not has_unknown(text) else ANYTHING
            self.shell.inner([self.text(each) for each in listed], stdin)
        else:
            self.shell.run_text(self.text(arguments[0]) if arguments else ANY)

    def _evaluate(self, node: ast.Call, text: str) -> None:
        shell = self.shell
        dumped = ast.dump(node.args[0]) if node.args else ""
        if re.search(r"urlopen|requests|httpx", dumped):
            shell.hide("download", "what is fetched from elsewhere is run")
        elif "id='compile'" in dumped:
            return  # followed as a call of its own
        elif has_unknown(text) or re.search(r"b64|b32|fromhex|unhex|decompress|rot|marshal|'decode'", dumped):
            shell.hide("code", "Python runs code that is not known")
        elif shell.depth < 20:
            shell.depth += 1
            if not read(shell, text):
                shell.hide("code", "Python runs code that is not known")
            shell.depth -= 1

    def _request(self, name: str, node: ast.Call) -> None:
        """Follow a request as one of `curl`, with all that it sends as input."""
        args, method = [self.text(each) for each in node.args], name.rpartition(".")[2].upper()
        if name.startswith(("urllib", "http.")):
            method = self._argument(node, 99, "method")
        elif method == "REQUEST":
            method, args = "".join(args[:1]), args[1:]
        where = args[0] if args else self._argument(node, 99, "url") or ANY
        sent = [each.value for each in node.keywords if each.arg in _SENT] + node.args[1:2]
        dumped, text = " ".join(map(ast.dump, sent)), "".join(map(self.text, sent))
        tags = {"environment"} if "environ" in dumped else set[str]()
        tags |= {"file"} if "'open'" in dumped or "read_" in dumped else set()
        data = Stream(None if tags or has_unknown(text) else text, frozenset(tags))
        words = ["curl", *(["-X", method.upper()] if method else []), *(["-d", "@-"] if sent else []), where]
        self.shell.inner(words, data)

    def _method(self, func: ast.Attribute, node: ast.Call, first: str) -> None:
        own = func.value
        if func.attr in ("execute", "executescript", "executemany"):
            sql.statements(self.shell, "python", first, self.base)
        elif func.attr in ("post", "put", "patch", "delete", "request") and re.match(r"https?://", first):
            self._request(f"requests.{func.attr}", node)
        elif words := _METHOD.get(func.attr):
            is_text = isinstance(own, ast.Name) and own.id in self.values
            pathlike = isinstance(own, ast.BinOp) or "Path" in ast.dump(own) or (is_text and not node.args)
            if pathlike and (func.attr != "replace" or len(node.args) == 1):
                self._run(words, node, first, self.text(own))
