"""The catalogue: what the system can do, read from the markdown under `system/`.

A tool is a folder `tools/<name>/` with a `pattern.md` or a `SKILL.md`; an operation is a file
`operations/<name>.md` or `kernel/<name>.md`. Several system folders overlay each other, path by path.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

from kernel.errors import ConfigurationError, OperationFailed
from kernel.phases import references

EFFECTS = ("read", "write", "network", "shell")
HANDS = ("read", "write", "bash")
"""The kernel's own operations: always in PLAN's index."""
_SHIPPED = ("kernel.", "runtime.")
"""Where code that runs inside the kernel's process may come from: what ships in the package."""


@dataclass(frozen=True)
class Tool:
    """One entry of the catalogue; frontmatter as kernel.md's table has it."""

    name: str
    path: Path
    description: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    required: tuple[str, ...] = ()
    returns: str = ""
    run: str = ""
    effects: tuple[str, ...] = ()
    idempotent: bool | Mapping[str, Sequence[str]] = False  # or: with which values of an argument
    timeout: float = 60.0
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = "active"
    origin: str = "shipped"
    body: str = ""
    operation: bool = True
    rank: int = 100  # among tools that suit a task equally, the smaller comes first in the index

    def repeatable(self, args: Mapping[str, Any]) -> bool:
        """Whether a call that may have happened can simply be made again."""
        if isinstance(self.idempotent, Mapping):
            return all(name not in args or args[name] in values for name, values in self.idempotent.items())
        return self.idempotent

    @property
    def guided(self) -> bool:
        """Whether its loop is guided by its body instead of run by code."""
        return not self.run

    @property
    def signature(self) -> str:
        """One line for PLAN's index, such as `read(path, lines?)`."""
        if self.guided:
            return f"{self.name}(what): {self.description}"
        names = [name if name in self.required else f"{name}?" for name in self.args]
        return f"{self.name}({', '.join(names)})"

    @property
    def line(self) -> str:
        """The signature with the description."""
        return self.signature if self.guided else f"{self.signature}: {self.description}"

    def section(self, name: str) -> str:
        """The text under the heading of that name in the body, "" when there is none."""
        return section(self.body, name)

    @property
    def preface(self) -> str:
        """The body without the sections of the four phases: work context of its loop."""
        return _PHASE_SECTION.sub("", self.body).strip()

    def problem(self, args: Mapping[str, Any] | None) -> str:
        """What is wrong with the arguments, in words; "" when nothing is."""
        if args is None:
            return ""
        if unknown := [name for name in args if name not in self.args]:
            return f"{self.signature} has no argument {', '.join(unknown)}"
        if missing := [name for name in self.required if name not in args]:
            return f"{self.signature} needs {', '.join(missing)}"
        whole = {name: value for name, value in args.items() if not references(value)}
        for name, value in whole.items():
            if problem := self._checks[name](value):
                return f"{self.name}: {problem}"
        return ""

    @cached_property
    def _checks(self) -> Mapping[str, Callable[[Any], str]]:
        return {name: _check(name, schema) for name, schema in self.args.items()}

    def typed(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for the call: a number that came out of a reference as text becomes a number."""
        return {name: _number(value, self.args.get(name, {})) for name, value in args.items()}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function behind `run: "python: module:function"`."""
        target = self.run.removeprefix("python:").strip()
        module, _, name = target.partition(":")
        if not self.run.startswith("python:") or not target.startswith(_SHIPPED):
            raise ConfigurationError(
                f"{self.path}: run: {self.run!r} is not a function that ships with Fractal"
            )
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"{self.path}: run: {error}") from None


@dataclass(frozen=True)
class Fault:
    """A file of the catalogue that was left out, and why."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class Catalogue:
    """The tools of a list of system folders; the first folder wins where two have the same path."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self.tools: dict[str, Tool] = {}
        self.faults: list[Fault] = []
        self._seen: dict[Path, tuple[int, int]] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Read again what changed on disk (by stat); True when anything did."""
        found = self._find()
        stats = {path: (stat.st_mtime_ns, stat.st_size) for path in found if (stat := _stat(path))}
        if stats == self._seen:
            return False
        self._seen = stats
        entries = [_load(path, *stat) for path, stat in stats.items()]
        self.faults = [entry for entry in entries if isinstance(entry, Fault)]
        self.tools = {}
        for entry in entries:
            if isinstance(entry, Tool) and entry.status == "active":
                self.tools.setdefault(entry.name, entry)
        return True

    def _find(self) -> list[Path]:
        found: dict[str, Path] = {}
        for folder in self.folders:
            for kind in ("kernel", "operations"):
                for name in _names(folder / kind):
                    if name.endswith(".md"):
                        found.setdefault(f"{kind}/{name}", folder / kind / name)
            for name in _names(folder / "tools"):
                for file in ("pattern.md", "SKILL.md"):
                    path = folder / "tools" / name / file
                    if path.is_file():
                        found.setdefault(f"tools/{name}", path)
                        break
        return list(found.values())

    def text(self, relative: str) -> str:
        """The instruction file `relative` of the first folder that has it; "" when none has."""
        for folder in self.folders:
            path = folder / relative
            if path.is_file():
                return path.read_text("utf-8").strip()
        return ""

    def get(self, name: str) -> Tool:
        """The tool of that name; raises `OperationFailed` that names the nearest ones."""
        if tool := self.tools.get(name):
            return tool
        raise OperationFailed(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The sentence that says there is no such tool."""
        near = difflib.get_close_matches(name, self.tools, 3) or sorted(self.tools)[:12]
        return f"there is no tool {name!r}; there are {', '.join(near)}"

    def problem(self, tool: str, args: Mapping[str, Any] | None) -> str:
        """What is wrong with such a call; "" when nothing is."""
        return self.tools[tool].problem(args) if tool in self.tools else self.unknown(tool)

    def guided(self, tool: str) -> bool:
        """Whether the tool's loop is guided by its pattern."""
        return tool in self.tools and self.tools[tool].guided

    def index(self, task: str, limit: int, count: Callable[[str], int]) -> str:
        """The signatures for PLAN within `limit` tokens: the hands, then whatever suits the task best."""
        words = set(_words(task))
        hands = [self.tools[name] for name in HANDS if name in self.tools]
        rest = [tool for tool in self.tools.values() if tool.name not in HANDS]
        rest.sort(
            key=lambda tool: (
                -len(words & set(_words(f"{tool.name} {tool.description}"))),
                tool.rank,
                tool.name,
            )
        )
        lines: list[str] = []
        used = 0
        for tool in [*hands, *rest]:
            line = tool.signature
            cost = count(line) + 1
            if used + cost > limit:
                break
            used += cost
            lines.append(line)
        return "\n".join(lines)


_PHASE_SECTION = re.compile(r"(?ims)^#+[ \t]+(?:understand|plan|do|check)\b[^\n]*\n.*?(?=^#+[ \t]|\Z)")


def section(text: str, name: str) -> str:
    """The text under the heading of that name, "" when there is none."""
    hit = re.search(rf"(?ims)^#+[ \t]+{re.escape(name)}\b[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _words(text: str) -> list[str]:
    return [word.rstrip("s") for word in re.findall(r"[a-z]{3,}", text.lower())]


@lru_cache(maxsize=4096)
def _load(path: Path, mtime_ns: int, size: int) -> Tool | Fault:
    """Read a file once for each of its versions, also when a thousand runs of one process need it."""
    import frontmatter  # python-frontmatter

    try:
        post = frontmatter.loads(path.read_text("utf-8"))
        return _tool(path, cast(dict[str, Any], post.metadata), post.content)
    except UnicodeDecodeError:
        return Fault(path, 1, "not UTF-8 text; save the file as UTF-8")
    except OSError as error:
        return Fault(path, 1, f"cannot be read: {error.strerror}")
    except ValueError as error:
        return Fault(path, 1, str(error))
    except Exception as error:  # YAML raises its own family; its mark tells the line
        mark = getattr(error, "problem_mark", None)
        return Fault(
            path, mark.line + 1 if mark else 1, f"the frontmatter is not YAML: {str(error).splitlines()[0]}"
        )


def _tool(path: Path, meta: dict[str, Any], body: str) -> Tool:
    operation = path.parent.name in ("operations", "kernel")
    name = meta.get("name") or (path.stem if operation else path.parent.name)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,63}", name):
        raise ValueError(f"name: {name!r} is not a name of a-z, 0-9 and -, at most 64 long")
    if not isinstance(meta.get("description"), str):
        raise ValueError("description is missing: one line for the index of tools")
    args = cast(dict[str, Any], meta.get("args") or {})
    required = tuple(meta.get("required") or ())
    if not all(isinstance(each, dict) for each in args.values()):
        raise ValueError("args: a mapping of names to JSON Schemas is needed")
    if stray := [each for each in required if each not in args]:
        raise ValueError(f"required: {', '.join(stray)} is not among args")
    effects = tuple(meta.get("effects") or ())
    if wrong := [each for each in effects if each not in EFFECTS]:
        raise ValueError(f"effects: {', '.join(map(str, wrong))} is none of {', '.join(EFFECTS)}")
    known = {"returns", "run", "status", "origin"}
    texts = {key: str(meta[key]) for key in known if meta.get(key) is not None}
    return Tool(
        name,
        path,
        meta["description"],
        args,
        required,
        effects=effects,
        idempotent=meta.get("idempotent") or False,
        timeout=float(meta.get("timeout", 60)),
        sample=meta.get("sample") or {},
        body=body,
        operation=operation,
        rank=int(meta.get("rank", 100)),
        **texts,
    )


def _check(name: str, schema: Mapping[str, Any]) -> Callable[[Any], str]:
    kinds: Mapping[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
    }
    if set(schema) <= {"type", "description", "default"} and isinstance(schema.get("type"), str):
        expected = kinds[schema["type"]]  # most arguments: no compiled schema, no import

        def plain(value: Any) -> str:
            right = isinstance(value, expected) and (
                schema["type"] == "boolean" or not isinstance(value, bool)
            )
            return "" if right else f"{name} must be {schema['type']}"

        return plain
    import fastjsonschema

    compiled = cast(Callable[[Any], Any], fastjsonschema.compile(dict(schema)))

    def full(value: Any) -> str:
        try:
            compiled(value)
        except fastjsonschema.JsonSchemaValueException as error:
            return str(error.message).replace("data", name, 1)
        return ""

    return full


def _number(value: Any, schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("integer", "number"):
        try:
            return int(value) if kind == "integer" else float(value)
        except ValueError:
            return value
    return value
