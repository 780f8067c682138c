"""Python code read by `ast`: the commands it starts, the files it removes or writes, what it sends."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, Any

from runtime.nervous import sql
from runtime.nervous.expressions import NODES, Expressions
from runtime.nervous.values import ANY, UNTOLD, Act, Stream, listed, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

LONGEST = 30_000
_SHELLS = listed(
    "os.system os.popen subprocess.getoutput subprocess.getstatusoutput commands.getoutput "
    "asyncio.create_subprocess_shell pexpect.spawn pexpect.run pty.spawn platform.popen"
)
_STARTS = listed(
    "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen "
    "asyncio.create_subprocess_exec sh.Command"
)
_REMOVES = listed(
    "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree os.truncate send2trash.send2trash"
)
_WRITES = listed("os.mkdir os.makedirs os.mknod os.mkfifo")
_MOVES = listed(
    "os.rename os.replace os.renames shutil.move shutil.copy shutil.copy2 shutil.copyfile shutil.copytree "
    "os.symlink os.link"
)
_CHANGES = listed("os.chmod os.chown os.lchown shutil.chown os.setxattr")
_SENDS = listed(
    "requests.post requests.put requests.patch httpx.post httpx.put urllib.request.urlopen "
    "urllib.request.Request http.client.HTTPConnection smtplib.SMTP ftplib.FTP requests.request "
    "http.client.HTTPSConnection"
)
_FETCHES = listed(
    "requests.get httpx.get urllib.request.urlretrieve requests.head requests.delete requests.Session"
)
_RUNS = listed("eval exec compile runpy.run_path builtins.exec builtins.eval code.interact execfile")
_PATH_METHODS = {
    "unlink": "delete",
    "rmdir": "delete",
    "rmtree": "delete",
    "write_text": "write",
    "write_bytes": "write",
    "touch": "write",
    "mkdir": "write",
    "rename": "delete",
    "replace": "delete",
    "read_text": "read",
    "read_bytes": "read",
}


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
        self.known = Expressions()

    def read(self, tree: ast.AST) -> None:
        """Follow every call, the outer ones first."""
        nodes = list(ast.walk(tree))
        if len(nodes) > NODES:
            self.shell.hide("code", "the Python code is too long to be looked through")
            nodes = nodes[:NODES]
        for node in nodes:
            if isinstance(node, ast.Import):
                for each in node.names:
                    self.known.names[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for each in node.names:
                    self.known.names[each.asname or each.name] = f"{node.module}.{each.name}"
        calls: list[ast.Call] = []
        used: set[int] = set()
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._assigned(node)
            elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
                self.known.values[node.target.id] = self.known.items(node.iter)
            if isinstance(node, (ast.While, ast.For, ast.ListComp, ast.GeneratorExp, ast.SetComp)):
                self._forks(node)
            elif isinstance(node, ast.Call):
                calls.append(node)
            elif isinstance(node, ast.Subscript) and self.known.name(node.value) == "os.environ":
                used.add(id(node.value))
                self._variable(self.known.text(node.slice))
            elif isinstance(node, ast.Attribute) and self.known.name(node.value) == "os.environ":
                used.add(id(node.value))
            elif isinstance(node, ast.Compare):
                used |= {id(each) for each in node.comparators}
            elif isinstance(node, ast.keyword) and node.arg == "env":
                used |= {id(each) for each in ast.walk(node)}
            elif (
                isinstance(node, ast.Attribute)
                and self.known.name(node) == "os.environ"
                and id(node) not in used
            ):
                self.shell.note(Act("secret", text="os.environ", shown="reads the whole environment"))
        for node in calls:
            self._call(node)

    def _variable(self, name: str) -> None:
        from runtime.nervous.parameters import secret

        if secret(name):
            self.shell.note(Act("secret", text=name, shown=f"uses the variable {name}"))

    def _assigned(self, node: Any) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                name = self.known.name(node.value)
                if name and "." in name and not untold(name) and not name.startswith(("self.",)):
                    self.known.names[target.id] = name
                elif module := self.known.imported(node.value):
                    self.known.names[target.id] = module
                else:
                    self.known.values[target.id] = self.known.text(node.value)

    def _forks(self, node: Any) -> None:
        endless = (
            isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        )
        over = (
            node.iter
            if isinstance(node, ast.For)
            else node.generators[0].iter
            if not isinstance(node, ast.While)
            else None
        )
        if isinstance(over, ast.Call) and self.known.name(over.func) in (
            "iter",
            "itertools.count",
            "itertools.repeat",
            "itertools.cycle",
            "range",
        ):
            endless = True
        if not endless:
            return
        for each in ast.walk(node):
            if (isinstance(each, ast.Call) and self.known.name(each.func) in ("os.fork", "os.forkpty")) or (
                isinstance(node, ast.While)
                and isinstance(each, ast.Call)
                and self.known.name(each.func) == "subprocess.Popen"
            ):
                self.shell.hide("fork", "it starts processes for ever")

    # ---- calls ----

    def _call(self, node: ast.Call) -> None:
        shell = self.shell
        shell.found.spend()
        name = self.known.name(node.func)
        first = (
            self.known.text(node.args[0])
            if node.args
            else self._keyword(node, "args", "path", "cmd", "command", "url")
        )
        if name in _SHELLS:
            self._run(first)
        elif name in _STARTS or re.fullmatch(r"os\.(?:exec|spawn|posix_spawn)\w*", name):
            self._start(name, node, first)
        elif name in _REMOVES:
            shell.touch(
                "delete", first, "removes", *(["recursive"] if "rmtree" in name else []), program="python"
            )
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
        elif name.startswith("socket.") or name in (
            "socket.socket",
            "asyncio.open_connection",
            "socket.create_connection",
        ):
            shell.note(Act("connect", "python", tags=frozenset({"socket"}), shown="opens a socket"))
        elif name in _SENDS or name in _FETCHES:
            self._sent(name, node, first)
        elif name in ("os.getenv", "os.environ.get"):
            self._variable(first)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in (
            "execute",
            "executescript",
            "executemany",
        ):
            for told, tags in sql.statements(first):
                shell.note(Act("sql", "python", text=told, tags=tags, shown=f"SQL: {told}"))
        elif name in ("os.kill", "os.killpg"):
            shell.note(
                Act(
                    "run",
                    "kill",
                    tuple(self.known.text(each) for each in node.args[:1]),
                    shown=f"ends the processes {first}",
                )
            )
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
        if isinstance(func, ast.Call) and self.known.name(func.func) in (
            "getattr",
            "__import__",
            "globals",
            "vars",
        ):
            self.shell.hide("code", "which function Python calls is not known")

    def _keyword(self, node: ast.Call, *names: str) -> str:
        return next((self.known.text(each.value) for each in node.keywords if each.arg in names), "")

    def _run(self, text: str) -> None:
        from runtime.nervous.running import execute

        execute(self.shell, text or ANY)

    def _start(self, name: str, node: ast.Call, first: str) -> None:
        from runtime.nervous.running import run

        given = node.args[0] if node.args else None
        if re.fullmatch(r"os\.(?:exec|spawn)\w*", name) or name == "asyncio.create_subprocess_exec":
            texts = [self.known.text(each) for each in node.args]
            texts = texts[1:] if name.startswith("os.spawn") else texts
            texts = (
                [texts[0], *texts[2:]]
                if re.fullmatch(r"os\.(?:exec|spawn)l\w*", name) and len(texts) > 1
                else texts
            )
            if re.fullmatch(r"os\.(?:exec|spawn)v\w*", name) and len(node.args) > 1:
                self._run(self.known.text(node.args[-2 if name.endswith("e") else -1]))
                return
            run(self.shell, texts or [ANY], UNTOLD)
        elif isinstance(given, (ast.List, ast.Tuple)) and given.elts:
            run(self.shell, [self.known.text(each) for each in given.elts], self._input(node))
        elif (
            isinstance(given, ast.Call)
            and isinstance(given.func, ast.Attribute)
            and given.func.attr == "split"
        ):
            self._run(
                self.known.text(given.func.value)
                if self.known.name(given.func) != "shlex.split"
                else self.known.text(given.args[0])
            )
        else:
            self._run(first)

    def _input(self, node: ast.Call) -> Stream:
        text = self._keyword(node, "input")
        return Stream(text) if text and not untold(text) else UNTOLD

    def _moved(self, name: str, node: ast.Call, first: str) -> None:
        target = self.known.text(node.args[1]) if len(node.args) > 1 else ANY
        if name.startswith(("os.re", "shutil.move")):
            self.shell.touch("delete", first, "moves away", "moved", program="python")
        else:
            self.shell.read(first, program="python")
        self.shell.touch("write", target, "writes", program="python")

    def _opened(self, node: ast.Call, path: str) -> None:
        mode = self.known.text(node.args[1]) if len(node.args) > 1 else self._keyword(node, "mode") or "r"
        if any(each in mode for each in "wax+") or "O_WR" in mode:
            self.shell.touch("write", path, "writes", program="python")
        else:
            self.shell.read(path, program="python")

    def _evaluated(self, name: str, node: ast.Call, first: str) -> None:
        given = node.args[0] if node.args else None
        if name == "compile" and not untold(first):
            follow(self.shell, first)
        elif (given is not None and "urlopen" in ast.dump(given)) or (
            given is not None and "requests" in ast.dump(given)
        ):
            self.shell.hide("download", "what is fetched from elsewhere is run")
        elif given is not None and re.search(
            r"b64|b32|fromhex|unhex|decompress|rot|marshal|'decode'", ast.dump(given)
        ):
            self.shell.hide("code", f"Python's {name} runs a text that is hidden")
            follow(self.shell, first if not untold(first) else "")
        elif isinstance(given, ast.Call) and self.known.name(given.func) in ("compile",):
            pass  # looked at on its own
        elif untold(first):
            self.shell.hide("code", f"Python's {name} runs what is not known")
        elif self.shell.depth < 20:
            self.shell.depth += 1
            follow(self.shell, first)
            self.shell.depth -= 1

    def _sent(self, name: str, node: ast.Call, first: str) -> None:
        self.shell.connect(first or "a host", program="python")
        sends = [
            each.value
            for each in node.keywords
            if each.arg in ("data", "files", "json", "params", "headers", "content")
        ]
        sends += node.args[1:2] if name in _SENDS else []
        for each in sends:
            dumped = ast.dump(each)
            tags = {"environment"} if "environ" in dumped else set()
            tags |= {"file"} if "'open'" in dumped or "read_" in dumped else set()
            text = self.known.text(each)
            known = not tags and not untold(text)
            self.shell.send(first, Stream(text if known else None, frozenset(tags)), "python")
        if untold(first.partition("?")[2]):
            self.shell.send(first, Stream(None), "python")

    def _path_method(self, func: ast.Attribute, node: ast.Call) -> None:
        does = _PATH_METHODS.get(func.attr)
        inner = func.value
        pathlike = (
            (isinstance(inner, ast.Call) and "Path" in self.known.name(inner.func))
            or (isinstance(inner, ast.Name) and inner.id in self.known.values and not node.args)
            or isinstance(inner, ast.BinOp)
        )
        if not does or not pathlike or (func.attr == "replace" and len(node.args) != 1):
            return
        path = self.known.text(inner)
        if does == "read":
            self.shell.read(path, program="python")
        else:
            self.shell.touch(does, path, f"{does}s", program="python")
