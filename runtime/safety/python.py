"""Python code read by `ast`: the commands it starts, the files it removes or writes, what it sends."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from typing import TYPE_CHECKING, Any

from runtime.safety import sql
from runtime.safety.acts import ANY, NAME, UNTOLD, Act, Stream, untold
from runtime.safety.words import secret

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

LONGEST = 30_000
NODES = 4_000
"""Most nodes of one text that are looked at."""
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
    "kill": "os.kill os.killpg",
}
_DOES = {name: does for does, names in _CALLS.items() for name in names.split()}
_PATH_METHODS = {
    **dict.fromkeys(("unlink", "rmdir", "rmtree", "rename", "replace"), "delete"),
    **dict.fromkeys(("write_text", "write_bytes", "touch", "mkdir"), "write"),
    **dict.fromkeys(("read_text", "read_bytes"), "read"),
}
_SAME = (
    *("decode", "encode", "strip", "expanduser", "resolve", "absolute", "as_posix", "rstrip"),
    *("expandvars", "split"),
)
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
    _Reader(shell).read(nodes)
    return True


class _Reader:
    """The names that a text of Python imports or sets, and what its calls do with them."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.base: list[str] = []  # the database that the text opens
        self.left = NODES
        self.loops = False

    def read(self, nodes: list[ast.AST]) -> None:
        """Note imports and assignments first, then follow every call."""
        self.loops = any(isinstance(each, _LOOPS) for each in nodes)
        partial: set[int] = set()  # uses of os.environ that do not read all of it
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
                partial |= {id(each) for each in node.comparators}
            elif isinstance(node, ast.keyword) and node.arg == "env":
                partial |= {id(each) for each in ast.walk(node)}
            elif isinstance(node, ast.Call) and self.name(node.func) in ("sqlite3.connect", "duckdb.connect"):
                self.base = [self.shell.path(self.text(each)) for each in node.args[:1]]
            if isinstance(node, (ast.Subscript, ast.Attribute)) and self.name(node.value) == "os.environ":
                partial.add(id(node.value))
                if isinstance(node, ast.Subscript):
                    self._variable(self.text(node.slice))
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif (
                isinstance(node, ast.Attribute)
                and id(node) not in partial
                and self.name(node) == "os.environ"
            ):
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
            if base in ("sys.modules", "__builtins__", "globals", "vars"):
                return key
            if base.endswith(".__dict__"):
                return f"{base.removesuffix('.__dict__')}.{key}"
        return ""

    def text(self, node: ast.AST | None) -> str:
        """The text that an expression gives, with marks for unknown parts."""
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
        return self._returned(node) if isinstance(node, ast.Call) else ANY

    def _returned(self, node: ast.Call) -> str:
        """The text that a call returns."""
        name = self.name(node.func)
        args = [self.text(each) for each in node.args]
        if name.rpartition(".")[2] in ("Path", "PurePath", "PosixPath", "str", "bytes", "fspath"):
            return "/".join(args) or "."
        if name == "os.path.join":
            start = max((at for at, each in enumerate(args) if each.startswith("/")), default=0)
            return "/".join(args[start:])
        if args and (name in ("shlex.split", "glob.glob", "glob.iglob") or name.startswith("os.path.")):
            return args[0].replace("$HOME", "~")
        if name.endswith("Path.home"):
            return "~"
        if name.endswith(("Path.cwd", "os.getcwd")):
            return "."
        if isinstance(node.func, ast.Attribute):
            base = self.text(node.func.value)
            if node.func.attr in _SAME:
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
            if name in ("sorted", "list", "set", "reversed", "iter") and node.args:
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
        first = self._argument(node, 0, "args", "path", "cmd", "command", "url")
        does = _DOES.get(name, "")
        if does == "shell":
            shell.run_text(first or ANY)
        elif does == "eval":
            self._eval(name, node, first)
        elif does == "start" or re.fullmatch(r"os\.(?:exec|spawn|posix_spawn)\w*", name):
            self._start(name, node)
        elif does in ("delete", "write"):
            shell.touch(does, first, *(["recursive"] if "rmtree" in name else []), program="python")
        elif does == "change":
            mode = node.args[1] if len(node.args) > 1 else None
            value = mode.value if isinstance(mode, ast.Constant) else 0
            bits = {"setuid": 0o6000, "open": 0o002}
            tags = [tag for tag, bit in bits.items() if isinstance(value, int) and value & bit]
            shell.touch("change", first, *tags, program="python", shown="changes the rights of")
        elif does in ("move", "copy"):
            if does == "move":
                shell.move(first, "python")
            else:
                shell.read(first, program="python")
            shell.touch("write", self._argument(node, 1) or ANY, program="python")
        elif does == "open":
            writes = re.search(r"[wax+]|O_WR", self._argument(node, 1, "mode"))
            shell.touch("write" if writes else "read", first, program="python")
        elif does == "request":
            self._request(name, node, first)
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
        elif does == "kill":
            shell.note(Act("run", "kill", (first,), shown=f"ends the processes {first}"))
        elif (not name and isinstance(node.func, (ast.Call, ast.Subscript))) or ANY in name:
            if re.search(r"id='(?:getattr|__import__|globals|vars)'", ast.dump(node.func)):
                shell.hide("code", "which function Python calls is not known")
        elif isinstance(node.func, ast.Attribute):
            self._method(node.func, node, first)

    def _argument(self, node: ast.Call, at: int, *names: str) -> str:
        """The text of an argument by position or name, or ""."""
        if at < len(node.args):
            return self.text(node.args[at])
        return next((self.text(each.value) for each in node.keywords if each.arg in names), "")

    def _eval(self, name: str, node: ast.Call, first: str) -> None:
        shell = self.shell
        dumped = ast.dump(node.args[0]) if node.args else ""
        if re.search(r"urlopen|requests|httpx", dumped):
            shell.hide("download", "what is fetched from elsewhere is run")
        elif "id='compile'" in dumped:
            return  # followed as a call of its own
        elif untold(first) or re.search(r"b64|b32|fromhex|unhex|decompress|rot|marshal|'decode'", dumped):
            shell.hide("code", f"Python's {name} runs what is not known")
        elif shell.depth < 20:
            shell.depth += 1
            if not read(shell, first):
                shell.hide("code", f"Python's {name} runs what is not known")
            shell.depth -= 1

    def _start(self, name: str, node: ast.Call) -> None:
        given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "args"), None)
        if name.startswith("os."):  # the program, then its arguments beginning with its name
            first, *rest = [*node.args[name.startswith("os.spawn") :], None]
            listed = next((each for each in rest if isinstance(each, (ast.List, ast.Tuple))), None)
            words = listed.elts if listed else [first, *rest[1:-1]]
            self.shell.run_text(" ".join(self.text(each) for each in words) or ANY)
        elif isinstance(given, (ast.List, ast.Tuple)) and given.elts:
            text = self._argument(node, 99, "input")
            known = Stream(text) if text and not untold(text) else UNTOLD
            self.shell.inner([self.text(each) for each in given.elts], known)
        else:
            self.shell.run_text(self.text(given))

    def _request(self, name: str, node: ast.Call, where: str) -> None:
        shell, method = self.shell, name.rpartition(".")[2].upper()
        if method in ("REQUEST", "URLOPEN"):
            method = where if name.endswith(".request") else ""
            method = (self._argument(node, 99, "method") or method).upper()
            where = self.text(node.args[1]) if name.endswith("s.request") and len(node.args) > 1 else where
        if not method and (len(node.args) > 1 or any(each.arg == "data" for each in node.keywords)):
            method = "POST"
        shell.connect(where or "a host", program="python")
        shell.request("python", method, where)
        sent = ("data", "files", "json", "params", "headers", "content")
        for each in [*(word.value for word in node.keywords if word.arg in sent), *node.args[1:2]]:
            dumped, text = ast.dump(each), self.text(each)
            tags = {"environment"} if "environ" in dumped else set[str]()
            tags |= {"file"} if "'open'" in dumped or "read_" in dumped else set()
            shell.send(where, Stream(None if tags or untold(text) else text, frozenset(tags)), "python")
        if untold(where.partition("?")[2]):
            shell.send(where, UNTOLD, "python")

    def _method(self, func: ast.Attribute, node: ast.Call, first: str) -> None:
        inner = func.value
        if func.attr in ("execute", "executescript", "executemany"):
            sql.statements(self.shell, "python", first, self.base)
        elif func.attr in ("post", "put", "patch", "delete", "request") and re.match(r"https?://", first):
            self._request(f"requests.{func.attr}", node, first)
        elif does := _PATH_METHODS.get(func.attr):
            known = isinstance(inner, ast.Name) and inner.id in self.values
            pathlike = isinstance(inner, ast.BinOp) or "Path" in ast.dump(inner) or (known and not node.args)
            if not pathlike or (func.attr == "replace" and len(node.args) != 1):
                return
            if does == "read":
                self.shell.read(self.text(inner), program="python")
            else:
                self.shell.touch(does, self.text(inner), program="python")
