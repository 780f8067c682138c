"""Python code read by `ast`: the commands it starts, the files it removes or writes, what it sends."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from typing import TYPE_CHECKING, Any

from runtime.nervous import code
from runtime.nervous.hosts import loopback
from runtime.nervous.lexer import secret
from runtime.nervous.values import ANY, NAME, UNTOLD, Act, Stream, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

LONGEST = 30_000
NODES = 4_000
"""Nodes of one text that are looked at."""
_CALLS = {
    "shell": "os.system os.popen subprocess.getoutput subprocess.getstatusoutput commands.getoutput "
    "pexpect.spawn asyncio.create_subprocess_shell pexpect.run pty.spawn",
    "start": "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen "
    "asyncio.create_subprocess_exec sh.Command",
    "delete": "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree os.truncate send2trash.send2trash",
    "write": "os.mkdir os.makedirs os.mknod os.mkfifo",
    "move": "os.rename os.replace os.renames shutil.move",
    "copy": "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree os.symlink os.link",
    "change": "os.chmod os.chown os.lchown shutil.chown os.setxattr",
    "open": "open io.open builtins.open codecs.open gzip.open os.open",
    "request": "requests.post requests.put requests.patch requests.delete requests.get requests.head "
    "requests.request httpx.post httpx.put httpx.patch httpx.delete httpx.get httpx.request "
    "urllib.request.urlopen urllib.request.Request urllib.request.urlretrieve http.client.HTTPConnection "
    "http.client.HTTPSConnection",
    "mail": "smtplib.SMTP smtplib.SMTP_SSL ftplib.FTP ftplib.FTP_TLS paramiko.SSHClient telnetlib.Telnet",
    "socket": "socket.socket socket.create_connection asyncio.open_connection socket.socketpair",
    "fork": "os.fork os.forkpty",
    "eval": "eval exec compile runpy.run_path builtins.exec builtins.eval code.interact execfile",
    "getenv": "os.getenv os.environ.get os.environ.pop",
    "hidden": "marshal.loads pickle.loads dill.loads",
}
_DOES = {name: does for does, names in _CALLS.items() for name in names.split()}
_PATH_METHODS = {
    **dict.fromkeys(("unlink", "rmdir", "rmtree", "rename", "replace"), "delete"),
    **dict.fromkeys(("write_text", "write_bytes", "touch", "mkdir"), "write"),
    **dict.fromkeys(("read_text", "read_bytes"), "read"),
}
_ITSELF = (
    *("decode", "encode", "strip", "expanduser", "resolve", "absolute", "as_posix", "rstrip"),
    *("expandvars", "split"),
)
"""Methods that give the text that they are called on, or as good as that."""
_LOOPS = (ast.While, ast.For, ast.ListComp, ast.GeneratorExp, ast.SetComp)
_LISTS = ("sorted", "list", "set", "reversed", "iter")


def read(shell: Shell, text: str) -> None:
    """Note what a text of Python does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text) if len(text) <= LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    nodes = list(ast.walk(tree)) if tree else []
    if tree is None or len(nodes) > NODES:
        code.literals(shell, "python", text)
    else:
        _Reader(shell).read(nodes)


class _Reader:
    """The names that a text of Python has imported or set, and what its calls do with them."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.base = ""  # the file of a database that the text opens
        self.left = NODES
        self.loops = False

    def read(self, nodes: list[ast.AST]) -> None:
        """Note imports and assignments first, then follow every call."""
        self.loops = any(isinstance(each, _LOOPS) for each in nodes)
        told: set[int] = set()  # uses of os.environ that do not read all of it
        for node in nodes:
            if isinstance(node, ast.Import):
                for each in node.names:
                    first = each.name.partition(".")[0]
                    self.names[each.asname or first] = each.name if each.asname else first
            elif isinstance(node, ast.ImportFrom):
                self.names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._assigned(node)
            elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
                self.values[node.target.id] = self.items(node.iter)
            elif isinstance(node, ast.Compare):
                told |= {id(each) for each in node.comparators}
            elif isinstance(node, ast.keyword) and node.arg == "env":
                told |= {id(each) for each in ast.walk(node)}
            elif isinstance(node, ast.Call) and self.name(node.func) in ("sqlite3.connect", "duckdb.connect"):
                self.base = self.text(node.args[0]) if node.args else ""
            if isinstance(node, (ast.Subscript, ast.Attribute)) and self.name(node.value) == "os.environ":
                told.add(id(node.value))
                if isinstance(node, ast.Subscript):
                    self._variable(self.text(node.slice))
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Attribute) and id(node) not in told and self.name(node) == "os.environ":
                self.shell.note(Act("secret", text="os.environ", shown="reads the whole environment"))

    def _variable(self, name: str) -> None:
        if secret(name):
            self.shell.note(Act("secret", text=name, shown=f"uses the variable {name}"))

    def _assigned(self, node: Any) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                name = self.name(node.value)
                known = name in self.names.values() or "." in name or name in _DOES
                if name and known and not untold(name):
                    self.names[target.id] = name
                else:
                    self.values[target.id] = self.text(node.value)

    # ---- what expressions give ----

    def name(self, node: ast.AST) -> str:
        """The full name of what is called: `from os import system as s; s(…)` is os.system."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.name(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):
            called = self.name(node.func)
            if called in ("__import__", "importlib.import_module") and node.args:
                return self.text(node.args[0])
            if called == "getattr" and len(node.args) > 1:
                return f"{self.name(node.args[0])}.{self.text(node.args[1])}"
        if isinstance(node, ast.Subscript):
            base, key = self.name(node.value), self.text(node.slice)
            if base == "sys.modules" or base in ("__builtins__", "globals", "vars"):
                return key
            if base.endswith(".__dict__"):
                return f"{base.removesuffix('.__dict__')}.{key}"
        return ""

    def text(self, node: ast.AST | None) -> str:
        """The text that an expression gives, with marks for what is not known."""
        self.left -= 1
        if self.left < 0 or node is None:
            return ANY
        if isinstance(node, ast.Constant):
            return node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)
        if isinstance(node, ast.Name):
            return self.values.get(node.id, ANY)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
            middle = "/" if isinstance(node.op, ast.Div) else ""
            return f"{self.text(node.left)}{middle}{self.text(node.right)}"[:4_000]
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
            return "".join(map(self.text, parts))
        if isinstance(node, (ast.List, ast.Tuple)):
            texts = [self.text(each) for each in node.elts[:100]]
            return " ".join(each if untold(each) else shlex.quote(each) for each in texts)
        if isinstance(node, ast.Attribute) and node.attr in ("parent", "name", "stem", "suffix"):
            return f"{self.text(node.value)}/.." if node.attr == "parent" else NAME
        if isinstance(node, ast.Call):
            return self._returned(node)
        return ANY

    def _returned(self, node: ast.Call) -> str:
        name = self.name(node.func)
        args = [self.text(each) for each in node.args]
        if name.rpartition(".")[2] in ("Path", "PurePath", "PosixPath", "str", "bytes", "fspath"):
            return "/".join(args) or "."
        if name == "shlex.split" and args:
            return args[0]
        if name == "os.path.join":
            start = max((at for at, each in enumerate(args) if each.startswith("/")), default=0)
            return "/".join(args[start:])
        if name.startswith("os.path.") and args:
            return args[0].replace("$HOME", "~")
        if name.endswith("Path.home"):
            return "~"
        if name.endswith(("Path.cwd", "os.getcwd")):
            return "."
        if name in ("glob.glob", "glob.iglob") and args:
            return args[0]
        if isinstance(node.func, ast.Attribute):
            base = self.text(node.func.value)
            if node.func.attr in _ITSELF:
                return base or "."
            if node.func.attr == "joinpath":
                return "/".join([base, *args])
            if node.func.attr in ("glob", "rglob", "iterdir"):
                return f"{base}/{args[0] if args else '*'}"
        return ANY

    def items(self, node: ast.AST) -> str:
        """What a loop goes over, as one path: `glob('*.tmp')` is *.tmp."""
        if isinstance(node, ast.Call):
            name = self.name(node.func)
            if name in _LISTS and node.args:
                return self.items(node.args[0])
            if name in ("os.listdir", "os.scandir"):
                return f"{self.text(node.args[0]) if node.args else '.'}/*"
        if isinstance(node, (ast.List, ast.Tuple)):
            texts = [self.text(each) for each in node.elts]
            risky = [each for each in texts if each.startswith(("/", "~", "..", ANY)) or each == "."]
            return (risky or texts or [ANY])[0]
        return self.text(node)

    # ---- calls ----

    def _call(self, node: ast.Call) -> None:
        shell, name = self.shell, self.name(node.func)
        shell.spend()
        first = self._keyword(node, "args", "path", "cmd", "command", "url")
        first = self.text(node.args[0]) if node.args else first
        does = _DOES.get(name, "")
        if does in ("shell", "eval"):
            self._runs(name, does, node, first)
        elif does == "start" or re.fullmatch(r"os\.(?:exec|spawn|posix_spawn)\w*", name):
            self._start(name, node)
        elif does in ("delete", "write", "change"):
            tags = ["recursive"] if "rmtree" in name else []
            mode = node.args[1] if len(node.args) > 1 else None
            value = mode.value if isinstance(mode, ast.Constant) else 0
            if does == "change" and isinstance(value, int):
                tags += [*(["setuid"] if value & 0o6000 else []), *(["open"] if value & 0o002 else [])]
            shell.touch(does, first, f"{does}s", *tags, program="python")
        elif does in ("move", "copy"):
            if does == "move":
                shell.touch("delete", first, "moves away", "moved", program="python")
            else:
                shell.read(first, program="python")
            target = self.text(node.args[1]) if len(node.args) > 1 else ANY
            shell.touch("write", target, "writes", program="python")
        elif does == "open":
            mode = self.text(node.args[1]) if len(node.args) > 1 else self._keyword(node, "mode") or "r"
            if re.search(r"[wax+]|O_WR", mode):
                shell.touch("write", first, "writes", program="python")
            else:
                shell.read(first, program="python")
        elif does == "request":
            self._requested(name, node, first)
        elif does == "mail":
            shell.note(Act("run", "mail", (first,), shown=f"Python speaks to {first} by {name}"))
        elif does == "socket":
            shell.note(Act("connect", "python", tags=frozenset({"socket"}), shown="opens a socket"))
        elif does == "getenv":
            self._variable(first)
        elif does == "fork" and self.loops:
            shell.hide("fork", "it starts processes for ever")
        elif does == "hidden" or name.startswith("ctypes."):
            shell.hide("code", f"Python's {name} runs what cannot be seen")
        elif name in ("os.kill", "os.killpg"):
            pids = tuple(self.text(each) for each in node.args[:1])
            shell.note(Act("run", "kill", pids, shown=f"ends the processes {first}"))
        elif (not name and isinstance(node.func, (ast.Call, ast.Subscript))) or ANY in name:
            if re.search(r"id='(?:getattr|__import__|globals|vars)'", ast.dump(node.func)):
                shell.hide("code", "which function Python calls is not known")
        elif isinstance(node.func, ast.Attribute):
            self._method(node.func, node, first)

    def _keyword(self, node: ast.Call, *names: str) -> str:
        return next((self.text(each.value) for each in node.keywords if each.arg in names), "")

    def _runs(self, name: str, does: str, node: ast.Call, first: str) -> None:
        shell = self.shell
        if does == "shell":
            shell.run_text(first or ANY)
            return
        dumped = ast.dump(node.args[0]) if node.args else ""
        if re.search(r"urlopen|requests|httpx", dumped):
            shell.hide("download", "what is fetched from elsewhere is run")
        elif "id='compile'" in dumped:
            return  # looked at on its own
        elif untold(first) or re.search(r"b64|b32|fromhex|unhex|decompress|rot|marshal|'decode'", dumped):
            shell.hide("code", f"Python's {name} runs what is not known")
        elif shell.depth < 20:
            shell.depth += 1
            read(shell, first)
            shell.depth -= 1

    def _start(self, name: str, node: ast.Call) -> None:
        given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "args"), None)
        if name.startswith("os."):  # the program, its arguments with its name first, as a list or one by one
            first, *rest = [*node.args[name.startswith("os.spawn") :], None]
            listed = next((each for each in rest if isinstance(each, (ast.List, ast.Tuple))), None)
            words = listed.elts if listed else [first, *rest[1:-1]]
            self.shell.run_text(" ".join(self.text(each) for each in words) or ANY)
        elif isinstance(given, (ast.List, ast.Tuple)) and given.elts:
            text = self._keyword(node, "input")
            known = Stream(text) if text and not untold(text) else UNTOLD
            self.shell.inner([self.text(each) for each in given.elts], known)
        else:
            self.shell.run_text(self.text(given))

    def _requested(self, name: str, node: ast.Call, where: str) -> None:
        shell, method = self.shell, name.rpartition(".")[2].upper()
        if method in ("REQUEST", "URLOPEN"):
            method = where if name.endswith(".request") else ""
            method = (self._keyword(node, "method") or method).upper()
            where = self.text(node.args[1]) if name.endswith("s.request") and len(node.args) > 1 else where
        sent = ("data", "files", "json", "params", "headers", "content")
        bodies = [each.value for each in node.keywords if each.arg in sent]
        if not method and (len(node.args) > 1 or any(k.arg == "data" for k in node.keywords)):
            method = "POST"
        shell.connect(where or "a host", program="python")
        local = frozenset({"loopback"} if loopback(where) else ())
        shell.note(Act("request", "python", text=method, tags=local, shown=f"{method} {where}"))
        for each in [*bodies, *node.args[1:2]]:
            dumped = ast.dump(each)
            tags = {"environment"} if "environ" in dumped else set[str]()
            tags |= {"file"} if "'open'" in dumped or "read_" in dumped else set()
            text = self.text(each)
            shell.send(where, Stream(None if tags or untold(text) else text, frozenset(tags)), "python")
        if untold(where.partition("?")[2]):
            shell.send(where, UNTOLD, "python")

    def _method(self, func: ast.Attribute, node: ast.Call, first: str) -> None:
        inner = func.value
        if func.attr in ("execute", "executescript", "executemany"):
            base = [self.shell.path(self.base)] if self.base else []
            code.statements(self.shell, "python", first, base)
            return
        if func.attr in ("post", "put", "patch", "delete", "request") and re.match(r"https?://", first):
            self._requested(f"requests.{func.attr}", node, first)
            return
        does = _PATH_METHODS.get(func.attr)
        known = isinstance(inner, ast.Name) and inner.id in self.values
        pathlike = isinstance(inner, ast.BinOp) or "Path" in ast.dump(inner) or (known and not node.args)
        if not does or not pathlike or (func.attr == "replace" and len(node.args) != 1):
            return
        if does == "read":
            self.shell.read(self.text(inner), program="python")
        else:
            self.shell.touch(does, self.text(inner), f"{does}s", program="python")
