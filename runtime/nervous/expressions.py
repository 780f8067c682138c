"""What an expression of Python gives, where that can be told without running it."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import re
import shlex
from typing import Any

from runtime.nervous.values import ANY, NAME, untold

NODES = 4_000
"""Nodes of one text of Python that are looked at."""


class Expressions:
    """The names that a text of Python has imported or set, and the texts that its expressions give."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.left = NODES

    def imported(self, node: ast.AST) -> str:
        """The module that `__import__("os")` gives."""
        if isinstance(node, ast.Call) and self.name(node.func) in ("__import__", "importlib.import_module"):
            found = self.text(node.args[0]) if node.args else ANY
            return "" if untold(found) else found
        return ""

    def name(self, node: ast.AST) -> str:
        """The full name of what is called: `from os import system as s; s(…)` is os.system."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.name(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):
            if module := self.imported(node):
                return module
            name = self.name(node.func)
            if name == "getattr" and len(node.args) > 1:
                return f"{self.name(node.args[0])}.{self.text(node.args[1])}"
            return ""
        if isinstance(node, ast.Subscript):
            base, key = self.name(node.value), self.text(node.slice)
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
            return "".join(
                self.text(each.value if isinstance(each, ast.FormattedValue) else each)
                for each in node.values
            )
        if isinstance(node, ast.Call):
            return self._returned(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            return " ".join(
                shlex.quote(self.text(each)) if not untold(self.text(each)) else self.text(each)
                for each in node.elts[:100]
            )
        if isinstance(node, ast.Attribute) and node.attr in ("parent", "name", "stem", "suffix"):
            return NAME if node.attr != "parent" else f"{self.text(node.value)}/.."
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            step = node.slice.step
            inner = self.text(node.value)
            if isinstance(step, ast.UnaryOp) and node.slice.lower is None and node.slice.upper is None:
                return inner[::-1]
        return ANY

    def _returned(self, node: ast.Call) -> str:
        name = self.name(node.func)
        first = self.text(node.args[0]) if node.args else ""
        if name in (
            "str",
            "bytes",
            "pathlib.Path",
            "pathlib.PurePath",
            "os.fspath",
            "os.path.abspath",
            "os.path.normpath",
            "pathlib.PosixPath",
            "Path",
        ):
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
        if name in (
            "base64.b64decode",
            "base64.standard_b64decode",
            "base64.urlsafe_b64decode",
            "binascii.a2b_base64",
        ):
            return decoded(first, "64")
        if name in ("bytes.fromhex", "binascii.unhexlify", "bytearray.fromhex"):
            return decoded(first, "16")
        if name == "codecs.decode" and len(node.args) > 1:
            return decoded(first, self.text(node.args[1]))
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, node)
        return ANY

    def _method(self, func: ast.Attribute, node: ast.Call) -> str:
        base = self.text(func.value)
        args = [self.text(each) for each in node.args]
        if func.attr in (
            "decode",
            "encode",
            "strip",
            "expanduser",
            "resolve",
            "absolute",
            "as_posix",
            "rstrip",
        ):
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
            numbers = items.args[1] if isinstance(items, ast.Call) and len(items.args) == 2 else None
            if not isinstance(items, ast.Call) or not isinstance(numbers, (ast.List, ast.Tuple)):
                return ANY
            if (self.name(items.func), self.name(items.args[0])) == ("map", "chr"):
                return base.join(self._character(self.text(each)) for each in numbers.elts)
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
        if (
            isinstance(items.elt, ast.Call)
            and self.name(items.elt.func) == "chr"
            and isinstance(generator.iter, (ast.List, ast.Tuple))
        ):
            plain = isinstance(items.elt.args[0], ast.Name) if items.elt.args else False
            if plain:
                return base.join(self._character(self.text(each)) for each in generator.iter.elts)
        return ANY

    @staticmethod
    def _character(text: str) -> str:
        return chr(int(text)) if text.isdigit() and int(text) < 0x110000 else ANY

    def items(self, node: ast.AST) -> str:
        """What a loop goes over, as one path: `glob('*.tmp')` is *.tmp."""
        if isinstance(node, ast.Call):
            name = self.name(node.func)
            if name in (
                "glob.glob",
                "glob.iglob",
                "os.listdir",
                "os.scandir",
                "sorted",
                "list",
                "set",
                "reversed",
            ):
                inner = node.args[0] if node.args else None
                if name in ("sorted", "list", "set", "reversed") and inner is not None:
                    return self.items(inner)
                text = self.text(inner) if inner is not None else "."
                return text if name.startswith("glob") else f"{text}/*"
            return self.text(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            texts = [self.text(each) for each in node.elts]
            risky = [each for each in texts if each.startswith(("/", "~", "..", ANY)) or each == "."]
            return risky[0] if risky else texts[0] if texts else ANY
        return ANY


def decoded(text: str, how: str) -> str:
    """The text behind a coding: base64, hex, rot13."""
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
            return decoded(text, {"hex": "16", "base64": "64"}[how])
    except (binascii.Error, ValueError, LookupError):
        return ANY
    return ANY
