"""Python code read by `ast`: the commands it starts, the files it removes or writes, what it sends."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import re
import shlex
import warnings
from typing import TYPE_CHECKING, Any

from runtime.nervous import sql
from runtime.nervous.values import ANY, NAME, UNTOLD, Act, Stream, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

LONGEST = 30_000
NODES = 4_000
_SHELLS = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput",
           "asyncio.create_subprocess_shell", "pexpect.spawn", "pexpect.run", "pty.spawn", "platform.popen")
_STARTS = ("subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen",
           "asyncio.create_subprocess_exec", "sh.Command")
_REMOVES = ("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree", "os.truncate", "send2trash.send2trash")
_WRITES = ("os.mkdir", "os.makedirs", "os.mknod", "os.mkfifo")
_MOVES = ("os.rename", "os.replace", "os.renames", "shutil.move", "shutil.copy", "shutil.copy2", "shutil.copyfile",
          "shutil.copytree", "os.symlink", "os.link")
_CHANGES = ("os.chmod", "os.chown", "os.lchown", "shutil.chown", "os.setxattr")
_SENDS = ("requests.post", "requests.put", "requests.patch", "httpx.post", "httpx.put", "urllib.request.urlopen",
          "urllib.request.Request", "http.client.HTTPConnection", "smtplib.SMTP", "ftplib.FTP", "requests.request",
          "http.client.HTTPSConnection")
_FETCHES = ("requests.get", "httpx.get", "urllib.request.urlretrieve", "requests.head", "requests.delete", "requests.Session")
_RUNS = ("eval", "exec", "compile", "runpy.run_path", "builtins.exec", "builtins.eval", "code.interact", "execfile")
_PATH_METHODS = {"unlink": "delete", "rmdir": "delete", "rmtree": "delete", "write_text": "write", "write_bytes": "write",
                 "touch": "write", "mkdir": "write", "rename": "delete", "replace": "delete", "read_text": "read", "read_bytes": "read"}


def follow(shell: Shell, text: str) -> None:
    """Note what a text of Python does."""
    if len(text) > LONGEST:
        shell.hide("code", "the Python code is too long to be looked through")
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _roughly(shell, text)
        return
    _Reader(shell).read(tree)


def _roughly(shell: Shell, text: str) -> None:
    """Of Python that is none by today's grammar: what stands in it as text."""
    if untold(text):
        shell.hide("code", "a part of the Python code is not known")
    for hit in re.finditer(r"os\.(?:system|popen)\s*\(\s*(['\"])(.*?)\1", text):
        shell.line(hit[2])
    if re.search(r"rmtree|os\.(?:remove|unlink|exec)|subprocess|__import__|socket", text):
        shell.hide("code", "the Python code could not be read to its end")


class _Reader:
    """Walks a tree once: names that are imported, values that are known, calls."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.left = NODES
        self.network = False

    def read(self, tree: ast.AST) -> None:
        """Follow every call, the outer ones first."""
        nodes = [node for node in ast.walk(tree)]
        if len(nodes) > NODES:
            self.shell.hide("code", "the Python code is too long to be looked through")
            nodes = nodes[:NODES]
        for node in nodes:
            if isinstance(node, ast.Import):
                for each in node.names:
                    self.names[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for each in node.names:
                    self.names[each.asname or each.name] = f"{node.module}.{each.name}"
        calls: list[ast.Call] = []
        used: set[int] = set()
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._assigned(node)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                self.values[node.target.id] = self._items(node.iter)
            elif isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name):
                self.values[node.target.id] = self._items(node.iter)
            elif isinstance(node, ast.While):
                self._forks(node)
            elif isinstance(node, ast.Call):
                calls.append(node)
            elif isinstance(node, ast.Subscript) and self._name(node.value) == "os.environ":
                used.add(id(node.value))
                self._variable(self.text(node.slice))
            elif isinstance(node, ast.Attribute) and self._name(node.value) == "os.environ":
                used.add(id(node.value))
            elif isinstance(node, ast.Compare):
                used |= {id(each) for each in node.comparators}
            elif isinstance(node, ast.keyword) and node.arg == "env":
                used |= {id(each) for each in ast.walk(node)}
            elif isinstance(node, ast.Attribute) and self._name(node) == "os.environ" and id(node) not in used:
                self.shell.note(Act("secret", text="os.environ", shown="reads the whole environment"))
        for node in calls:
            self._call(node)

    def _variable(self, name: str) -> None:
        from runtime.nervous.words import secret

        if secret(name):
            self.shell.note(Act("secret", text=name, shown=f"uses the variable {name}"))

    def _assigned(self, node: Any) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                name = self._name(node.value)
                if name and "." in name and not isinstance(node.value, ast.Call):
                    self.names[target.id] = name
                elif module := self._imported(node.value):
                    self.names[target.id] = module
                else:
                    self.values[target.id] = self.text(node.value)

    def _imported(self, node: ast.AST) -> str:
        """The module that `__import__("os")` gives."""
        if isinstance(node, ast.Call) and self._name(node.func) in ("__import__", "importlib.import_module"):
            found = self.text(node.args[0]) if node.args else ANY
            return "" if untold(found) else found
        return ""

    def _forks(self, node: ast.While) -> None:
        if isinstance(node.test, ast.Constant) and node.test.value:
            for each in ast.walk(node):
                if isinstance(each, ast.Call) and self._name(each.func) in ("os.fork", "os.forkpty", "subprocess.Popen"):
                    self.shell.hide("fork", "it starts processes for ever")

    def _name(self, node: ast.AST) -> str:
        """The full name of what is called: `from os import system as s; s(…)` is os.system."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self._name(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):
            if module := self._imported(node):
                return module
            name = self._name(node.func)
            if name == "getattr" and len(node.args) > 1:
                return f"{self._name(node.args[0])}.{self.text(node.args[1])}"
            return ""
        if isinstance(node, ast.Subscript):
            base, key = self._name(node.value), self.text(node.slice)
            if base in ("sys.modules",):
                return key
            if base.endswith("__dict__") or base in ("__builtins__", "globals", "vars"):
                return f"{base.removesuffix('.__dict__')}.{key}" if base.endswith("__dict__") else key
        return ""

    def text(self, node: ast.AST | None) -> str:
        """The text that an expression gives, with marks for what is not known."""
        self.left -= 1
        if self.left < 0 or node is None:
            return ANY
        if isinstance(node, ast.Constant):
            value = node.value
            return value.decode("latin-1") if isinstance(value, bytes) else str(value)
        if isinstance(node, ast.Name):
            return self.values.get(node.id, ANY)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
            middle = "/" if isinstance(node.op, ast.Div) else ""
            return f"{self.text(node.left)}{middle}{self.text(node.right)}"[:4_000]
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(each.value if isinstance(each, ast.FormattedValue) else each) for each in node.values)
        if isinstance(node, ast.Call):
            return self._returned(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            return " ".join(shlex.quote(self.text(each)) if not untold(self.text(each)) else self.text(each) for each in node.elts[:100])
        if isinstance(node, ast.Attribute) and node.attr in ("parent", "name", "stem", "suffix"):
            return NAME if node.attr != "parent" else f"{self.text(node.value)}/.."
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            step = node.slice.step
            inner = self.text(node.value)
            if isinstance(step, ast.UnaryOp) and node.slice.lower is None and node.slice.upper is None:
                return inner[::-1]
        return ANY

    def _returned(self, node: ast.Call) -> str:
        name = self._name(node.func)
        first = self.text(node.args[0]) if node.args else ""
        if name in ("str", "bytes", "pathlib.Path", "pathlib.PurePath", "os.fspath", "os.path.abspath", "os.path.normpath", "pathlib.PosixPath", "Path"):
            return "/".join(self.text(each) for each in node.args) if node.args else "."
        if name in ("os.path.join",):
            parts = [self.text(each) for each in node.args]
            start = max((at for at, each in enumerate(parts) if each.startswith("/")), default=0)
            return "/".join(parts[start:])
        if name in ("os.path.expanduser",):
            return first
        if name in ("os.path.expandvars",):
            return first.replace("$HOME", "~")
        if name.endswith("Path.home"):
            return "~"
        if name.endswith(("Path.cwd", "os.getcwd")) or name == "os.getcwd":
            return "."
        if name == "chr":
            return chr(int(first)) if first.isdigit() and int(first) < 0x110000 else ANY
        if name in ("base64.b64decode", "base64.standard_b64decode", "base64.urlsafe_b64decode", "binascii.a2b_base64"):
            return _decoded(first, "64")
        if name in ("bytes.fromhex", "binascii.unhexlify", "bytearray.fromhex"):
            return _decoded(first, "16")
        if name == "codecs.decode" and len(node.args) > 1:
            return _decoded(first, self.text(node.args[1]))
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, node)
        return ANY

    def _method(self, func: ast.Attribute, node: ast.Call) -> str:
        base = self.text(func.value)
        args = [self.text(each) for each in node.args]
        if func.attr in ("decode", "encode", "strip", "expanduser", "resolve", "absolute", "as_posix", "rstrip"):
            return base if base else "."
        if func.attr in ("lower", "upper") and not untold(base):
            return getattr(base, func.attr)()
        if func.attr == "replace" and len(args) == 2 and not untold(base + args[0]):
            return base.replace(args[0], args[1])
        if func.attr == "join" and len(node.args) == 1:
            items = node.args[0]
            if isinstance(items, (ast.List, ast.Tuple)):
                return base.join(self.text(each) for each in items.elts)
            if isinstance(items, (ast.ListComp, ast.GeneratorExp)) and len(items.generators) == 1:
                return self._comprehended(base, items)
            if isinstance(items, ast.Call) and self._name(items.func) == "map" and len(items.args) == 2:
                if self._name(items.args[0]) == "chr" and isinstance(items.args[1], (ast.List, ast.Tuple)):
                    return base.join(self._character(self.text(each)) for each in items.args[1].elts)
            return ANY
        if func.attr == "joinpath":
            return "/".join([base, *args])
        if func.attr == "format" and not untold(base):
            return re.sub(r"\{\d*\}", lambda _: args.pop(0) if args else ANY, base)
        if func.attr in ("glob", "rglob", "iterdir"):
            return f"{base}/{args[0] if args else '*'}"
        return ANY

    def _comprehended(self, base: str, items: Any) -> str:
        generator = items.generators[0]
        if isinstance(items.elt, ast.Call) and self._name(items.elt.func) == "chr" and isinstance(generator.iter, (ast.List, ast.Tuple)):
            plain = isinstance(items.elt.args[0], ast.Name) if items.elt.args else False
            if plain:
                return base.join(self._character(self.text(each)) for each in generator.iter.elts)
        return ANY

    @staticmethod
    def _character(text: str) -> str:
        return chr(int(text)) if text.isdigit() and int(text) < 0x110000 else ANY

    def _items(self, node: ast.AST) -> str:
        """What a loop goes over, as one path: `glob('*.tmp')` is *.tmp."""
        if isinstance(node, ast.Call):
            name = self._name(node.func)
            if name in ("glob.glob", "glob.iglob", "os.listdir", "os.scandir", "sorted", "list", "set", "reversed"):
                inner = node.args[0] if node.args else None
                if name in ("sorted", "list", "set", "reversed") and inner is not None:
                    return self._items(inner)
                text = self.text(inner) if inner is not None else "."
                return text if name.startswith("glob") else f"{text}/*"
            return self.text(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            texts = [self.text(each) for each in node.elts]
            risky = [each for each in texts if each.startswith(("/", "~", "..", ANY)) or each == "."]
            return risky[0] if risky else texts[0] if texts else ANY
        return ANY

    # ---- calls ----

    def _call(self, node: ast.Call) -> None:
        shell = self.shell
        shell.found.spend()
        name = self._name(node.func)
        first = self.text(node.args[0]) if node.args else self._keyword(node, "args", "path", "cmd", "command", "url")
        if name in _SHELLS:
            self._run(first)
        elif name in _STARTS or re.fullmatch(r"os\.(?:exec|spawn|posix_spawn)\w*", name):
            self._start(name, node, first)
        elif name in _REMOVES:
            shell.touch("delete", first, "removes", *(["recursive"] if "rmtree" in name else []), program="python")
        elif name in _WRITES:
            shell.touch("write", first, "makes", program="python")
        elif name in _CHANGES:
            shell.touch("change", first, "changes the rights of", program="python")
        elif name in _MOVES:
            self._moved(name, node, first)
        elif name in ("open", "io.open", "builtins.open", "codecs.open", "gzip.open", "os.open"):
            self._opened(node, first)
        elif name in _RUNS:
            self._evaluated(name, node, first)
        elif name.startswith("socket.") or name in ("socket.socket", "asyncio.open_connection", "socket.create_connection"):
            shell.note(Act("connect", "python", tags=frozenset({"socket"}), shown="opens a socket"))
        elif name in _SENDS or name in _FETCHES:
            self._sent(name, node, first)
        elif name in ("os.getenv", "os.environ.get"):
            self._variable(first)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("execute", "executescript", "executemany"):
            for told, tags in sql.statements(first):
                shell.note(Act("sql", "python", text=told, tags=tags, shown=f"SQL: {told}"))
        elif name in ("os.kill", "os.killpg"):
            shell.note(Act("run", "kill", tuple(self.text(each) for each in node.args[:1]), shown=f"ends the processes {first}"))
        elif name.startswith("ctypes."):
            shell.hide("code", "Python calls machine code, which cannot be seen")
        elif name in ("marshal.loads", "pickle.loads", "dill.loads"):
            shell.hide("code", "Python runs what is packed in a text")
        elif not name and isinstance(node.func, (ast.Call, ast.Subscript)):
            self._strange(node.func)
        elif name.endswith(ANY) or (name.startswith("getattr") and untold(name)):
            shell.hide("code", "which function Python calls is not known")
        elif isinstance(node.func, ast.Attribute):
            self._path_method(node.func, node)

    def _strange(self, func: ast.AST) -> None:
        if isinstance(func, ast.Call) and self._name(func.func) in ("getattr", "__import__", "globals", "vars"):
            self.shell.hide("code", "which function Python calls is not known")

    def _keyword(self, node: ast.Call, *names: str) -> str:
        return next((self.text(each.value) for each in node.keywords if each.arg in names), "")

    def _run(self, text: str) -> None:
        from runtime.nervous.running import execute

        execute(self.shell, text or ANY)

    def _start(self, name: str, node: ast.Call, first: str) -> None:
        from runtime.nervous.running import run

        given = node.args[0] if node.args else None
        if re.fullmatch(r"os\.(?:exec|spawn)\w*", name) or name == "asyncio.create_subprocess_exec":
            texts = [self.text(each) for each in node.args]
            texts = texts[1:] if name.startswith("os.spawn") else texts
            texts = [texts[0], *texts[2:]] if re.fullmatch(r"os\.(?:exec|spawn)l\w*", name) and len(texts) > 1 else texts
            if re.fullmatch(r"os\.(?:exec|spawn)v\w*", name) and len(node.args) > 1:
                self._run(self.text(node.args[-2 if name.endswith("e") else -1]))
                return
            run(self.shell, texts or [ANY], UNTOLD)
        elif isinstance(given, (ast.List, ast.Tuple)) and given.elts:
            run(self.shell, [self.text(each) for each in given.elts], self._input(node))
        elif isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "split":
            self._run(self.text(given.func.value) if self._name(given.func) != "shlex.split" else self.text(given.args[0]))
        else:
            self._run(first)

    def _input(self, node: ast.Call) -> Stream:
        text = self._keyword(node, "input")
        return Stream(text) if text and not untold(text) else UNTOLD

    def _moved(self, name: str, node: ast.Call, first: str) -> None:
        target = self.text(node.args[1]) if len(node.args) > 1 else ANY
        if name.startswith(("os.re", "shutil.move")):
            self.shell.touch("delete", first, "moves away", "moved", program="python")
        else:
            self.shell.read(first, program="python")
        self.shell.touch("write", target, "writes", program="python")

    def _opened(self, node: ast.Call, path: str) -> None:
        mode = self.text(node.args[1]) if len(node.args) > 1 else self._keyword(node, "mode") or "r"
        if any(each in mode for each in "wax+") or "O_WR" in mode:
            self.shell.touch("write", path, "writes", program="python")
        else:
            self.shell.read(path, program="python")

    def _evaluated(self, name: str, node: ast.Call, first: str) -> None:
        given = node.args[0] if node.args else None
        if name == "compile" and not untold(first):
            follow(self.shell, first)
        elif given is not None and "urlopen" in ast.dump(given) or given is not None and "requests" in ast.dump(given):
            self.shell.hide("download", "what is fetched from elsewhere is run")
        elif isinstance(given, ast.Call) and self._name(given.func) in ("compile",):
            pass  # looked at on its own
        elif untold(first):
            self.shell.hide("code", f"Python's {name} runs what is not known")
        elif self.shell.depth < 20:
            self.shell.depth += 1
            follow(self.shell, first)
            self.shell.depth -= 1

    def _sent(self, name: str, node: ast.Call, first: str) -> None:
        self.shell.connect(first or "a host", program="python")
        sends = [each.value for each in node.keywords if each.arg in ("data", "files", "json", "params", "headers", "content")]
        sends += node.args[1:2] if name in _SENDS else []
        for each in sends:
            dumped = ast.dump(each)
            tags = {"environment"} if "environ" in dumped else set()
            tags |= {"file"} if "'open'" in dumped or "read_" in dumped else set()
            text = self.text(each)
            known = not tags and not untold(text)
            self.shell.send(first, Stream(text if known else None, frozenset(tags)), "python")
        if untold(first.partition("?")[2]):
            self.shell.send(first, Stream(None), "python")

    def _path_method(self, func: ast.Attribute, node: ast.Call) -> None:
        does = _PATH_METHODS.get(func.attr)
        inner = func.value
        pathlike = isinstance(inner, ast.Call) and "Path" in self._name(inner.func) or (
            isinstance(inner, ast.Name) and inner.id in self.values and not node.args
        ) or isinstance(inner, ast.BinOp)
        if not does or not pathlike or (func.attr == "replace" and len(node.args) != 1):
            return
        path = self.text(inner)
        if does == "read":
            self.shell.read(path, program="python")
        else:
            self.shell.touch(does, path, f"{does}s", program="python")


def _decoded(text: str, how: str) -> str:
    if untold(text):
        return ANY
    try:
        if how == "64":
            return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=None).decode("latin-1")
        if how == "16":
            return bytes.fromhex(text).decode("latin-1")
        if how.replace("_", "").replace("-", "").lower() in ("rot13",):
            return codecs.decode(text, "rot13")
        if how in ("hex", "base64"):
            return _decoded(text, {"hex": "16", "base64": "64"}[how])
    except (binascii.Error, ValueError, LookupError):
        return ANY
    return ANY
