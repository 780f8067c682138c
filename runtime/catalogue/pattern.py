"""Reads the markdown of one tool: `pattern.md`, a skill's `SKILL.md`, or an operation's file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, cast

from kernel.errors import ConfigurationError
from kernel.tools.state_machine import Machine
from kernel.tools.tool import EFFECTS, Tool
from runtime import pinned
from runtime.catalogue.schemas import checker
from runtime.catalogue.skills import few_values, read_skill
from runtime.sandbox.bubblewrap import home
from runtime.skill_files import is_skill, resources

LARGEST = 1_000_000
"""Bytes of the markdown of one tool."""
LONGEST = 86_400
"""Seconds that a call may take; the run's own limit holds all the same."""
_SHIPPED = ("kernel.", "runtime.")
"""Packages whose code may run in Fractal's process."""
_EARLIER = re.compile(r"kernel\.(?:operations|tools\.builtin)\.(?=bash:|read:|write:)")
"""Where the builtin operations were; workspaces of earlier versions name them so."""
_PACKAGE = __name__.removesuffix("runtime.catalogue.pattern")
"""The parent package of `kernel` and `runtime`: "" in a checkout, `fractal.` in an installed wheel."""
_EFFECTS_OF_SKILLS = ("read", "write", "shell")
"""Effects of every skill: a SKILL.md does not declare them."""

_SAMPLE: Mapping[str, tuple[type, Any, str]] = {
    "task": (str, object, "a text"),
    "shows": (str, object, "a pattern"),
    "args": (dict, object, "a mapping of names to values"),
    "files": (dict, str | int | float, "a mapping of paths to texts"),
    "before": (list, dict, "a list of mappings, the arguments of each call"),
    "leaves": (list, str, "a list of paths"),
}
"""The parts of a sample: what each is, and what is in it."""


@dataclass(frozen=True)
class Fault:
    """A file of the catalogue that was skipped, and why."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@lru_cache(maxsize=4096)
def load(path: Path, mtime_ns: int, size: int, allowed: str | None = None) -> Tool | Fault:
    """Read a file once for each of its versions, also when a thousand runs of one process need it.

    `allowed` is the digest that a run holds it to, which also keeps what is read apart from other versions.
    """
    try:
        if is_skill(path.name):
            return _skill(path)
        if size > LARGEST:
            return Fault(path, 1, f"{size:,} bytes are too many; {LARGEST:,} at most are read")
        import frontmatter  # python-frontmatter

        post = frontmatter.loads(pinned.read(path).decode("utf-8"))
        few_values(post.metadata)
        return _tool(path, cast(dict[str, Any], post.metadata), post.content)
    except UnicodeDecodeError:
        return Fault(path, 1, "not UTF-8 text; save the file as UTF-8")
    except OSError as error:
        return Fault(path, 1, f"cannot be read: {error.strerror}")
    except ConfigurationError as error:
        return Fault(path, 1, str(error).removeprefix(f"{path} "))
    except ValueError as error:
        return Fault(path, getattr(error, "line", 1), str(error))
    except Exception as error:  # YAML has its own exceptions; their mark has the line
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        hint = "text with a colon, comma, bracket or brace stands in quotes"
        message = (
            f"the frontmatter is not YAML: {problem}; {hint}"
            if mark
            else f"a value is of the wrong kind: {problem}"
        )
        return Fault(path, mark.line + 1 if mark else 1, message)


def _skill(path: Path) -> Tool:
    skill = read_skill(path)
    folder = path.parent.resolve()
    if folder == home() or folder in home().parents:
        raise ValueError("a skill lies in a folder of its own: commands of its loop see all that is there")
    return Tool(
        skill.name,
        path,
        skill.description,
        effects=_EFFECTS_OF_SKILLS,
        origin="skill",
        body=skill.body,
        operation=False,
        skill=True,
        resources=partial(resources, skill.name, path.parent),
    )


def machine(data: Any, args: Mapping[str, Any]) -> Machine:
    """The machine of a pattern's `states:`; raises `ValueError` with the reason if it is invalid."""
    if not isinstance(data, dict) or set(cast(dict[str, Any], data)) != {"by", "start", "moves"}:
        raise ValueError("states: a mapping of by (an argument), start (a state) and moves is needed")
    by, start, moves = (cast(dict[str, Any], data)[name] for name in ("by", "start", "moves"))
    if not isinstance(by, str) or by not in args:
        raise ValueError(f"states: by: {by!r} is not among args")
    if not isinstance(moves, dict) or _word(start) not in moves:
        raise ValueError(f"states: start: {start!r} is not among moves")
    for state, ways in cast(dict[Any, Any], moves).items():
        if not _word(state) or not isinstance(ways, dict):
            raise ValueError(f"states: moves: {state}: a mapping of actions to states is needed")
        for action, to in cast(dict[Any, Any], ways).items():
            if _word(to) not in moves:
                raise ValueError(f"states: moves: {state}: {action}: there is no state {to!r}")
            values = args[by].get("enum")
            if _word(action) not in (values or [action]):
                raise ValueError(f"states: moves: {state}: {action!r} is no value of {by}")
    return Machine(by, start, cast(Mapping[str, Mapping[str, str]], moves))


def _word(value: Any) -> str:
    """A state or an action. YAML reads `on`, `off`, `yes`, `no` and numbers as other types."""
    if isinstance(value, bool | int | float | None):
        raise ValueError(f"states: {value!r} was read where a word is needed; put it in quotes")
    return value if isinstance(value, str) else ""


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds <= LONGEST:
        raise ValueError(f"timeout: {value} is no number of seconds from 0 to {LONGEST}")
    return seconds


def _lifeforce(meta: Mapping[str, Any], states: Machine | None) -> float | dict[str, float]:
    """What a call costs; of a tool with states it may be a mapping of actions."""
    value = meta.get("lifeforce", 0.0)
    if value and not meta.get("run"):
        raise ValueError("lifeforce: the loop of a guided tool costs what its calls cost; leave it out")
    by_action = states is not None and isinstance(value, dict)
    costs = cast(dict[Any, Any], value if by_action else {"": value})
    for action, cost in costs.items():
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < inf:
            raise ValueError(f"lifeforce: {cost!r} is no number from 0; with states a mapping of actions")
        if action and states and action not in states.actions:
            raise ValueError(f"lifeforce: {action!r} is not among the actions: {', '.join(states.actions)}")
    return {action: float(cost) for action, cost in costs.items()} if by_action else float(costs[""])


def _only_reads(value: Any, args: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """The values of arguments with which a call only reads; None if there are none."""
    if value is None:
        return None
    values = cast(dict[Any, Any], value) if isinstance(value, dict) else {}
    if not values or not all(name in args and isinstance(each, list) for name, each in values.items()):
        raise ValueError("only_reads: a mapping of arguments to lists of values is needed, such as {to: []}")
    return values


def _cases(cases: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(cases, list):
        raise ValueError("cases: a list of mappings of files, args and shows is needed")
    return tuple(_sample(each, f"cases: {n}") for n, each in enumerate(cast(list[Any], cases), 1))


def _sample(sample: Any, where: str = "sample") -> dict[str, Any]:
    if not isinstance(sample, dict):
        raise ValueError(f"{where}: a mapping of task, files, args and shows is needed")
    parts = cast(dict[str, Any], sample)
    for name, (kind, inner, words) in _SAMPLE.items():
        part = parts.get(name)
        items: Any = cast(dict[str, Any], part).values() if isinstance(part, dict) else part
        inside = list(items) if isinstance(part, dict | list) else []
        if part is not None and not (isinstance(part, kind) and all(isinstance(i, inner) for i in inside)):
            raise ValueError(f"{where}: {name}: {words} is needed")
    return parts


def _tool(path: Path, meta: dict[str, Any], body: str) -> Tool:
    operation = path.parent.name in ("operations", "kernel")
    name = meta.get("name") or (path.stem if operation else path.parent.name)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
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
    states = machine(meta["states"], args) if meta.get("states") else None
    run = str(meta.get("run") or "")
    return Tool(
        name,
        path,
        meta["description"],
        args,
        required,
        effects=effects,
        idempotent=meta.get("idempotent") or False,
        only_reads=_only_reads(meta.get("only_reads"), args),
        timeout=_seconds(meta.get("timeout", 60)),
        sample=_sample(meta.get("sample") or {}),
        cases=_cases(meta.get("cases") or []),
        body=body,
        operation=operation,
        rank=int(meta.get("rank", 100)),
        states=states,
        lifeforce=_lifeforce(meta, states),
        check=checker(args),
        status=str(meta.get("status") or "active"),
        origin=str(meta.get("origin") or "shipped"),
        open=bool(meta.get("open")) and not meta.get("run"),
        oversight=bool(meta.get("oversight")) and not meta.get("run"),
        returns=str(meta.get("returns") or ""),
        run=run,
        code=partial(shipped_function, path, run),
    )


def shipped_function(path: Path, run: str) -> Callable[..., Any]:
    """The function behind `run: "python: module:function"` of a tool's file."""
    target = run.removeprefix("python:").strip()
    module, _, name = _EARLIER.sub("runtime.operations.", target).partition(":")
    if not run.startswith("python:") or not target.startswith(_SHIPPED):
        raise ConfigurationError(f"{path}: run: {run!r} is not a function that ships with Fractal")
    try:
        return getattr(import_module(_PACKAGE + module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{path}: run: {error}") from None
