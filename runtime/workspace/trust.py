"""What this user allows of a folder: settings that lower security, its own `system/`, its skills and servers.

A folder can come from a stranger. What it asks for counts once a person has looked at it and said yes, as it
is written then. That is kept outside of the folder, in the user's own configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from kernel import disk
from kernel.errors import ConfigurationError
from runtime import locks, pinned
from runtime.addresses import is_loopback
from runtime.workspace import found, ownership
from runtime.workspace.allowed import VARIABLE as VARIABLE
from runtime.workspace.allowed import Item, digest, everything, known, place
from runtime.workspace.allowed import Untrusted as Untrusted
from runtime.workspace.allowed import waiting as waiting
from runtime.workspace.settings import Config, read, user_file
from runtime.workspace.workspace import POSTGRES, Workspace, settings_files

PATIENCE = 10.0
"""Seconds to wait for another process that allows something."""
CHANGED = "changed by a run"
"""The name of the mark on settings that changed while a run worked; what was allowed has other names."""
README = "README.md"
"""A file of `system/` that is no instruction."""


def accept(items: Iterable[Item]) -> None:
    """Allow these from now on; where the environment allows everything, nothing is kept."""
    if everything():
        return
    with _changing() as allowed:
        for item in items:
            allowed.setdefault(item.folder, {})[item.name] = item.digest


def revoke(folders: Iterable[Path]) -> int:
    """Allow nothing of these folders any more; returns how many items that were."""
    with _changing() as allowed:
        return sum(len(allowed.pop(str(folder), {})) for folder in folders)


@contextmanager
def _changing() -> Generator[dict[str, dict[str, str]]]:
    """The permissions, written when the block ends; no other process changes them meanwhile."""
    path = place()
    lock = path.with_name("trusted.lock")
    try:
        with locks.lock(lock, PATIENCE, lambda: ConfigurationError(f"{lock} is held by another process")):
            allowed = known()
            yield allowed
            nonempty = {folder: names for folder, names in allowed.items() if names}
            disk.put(path, (json.dumps(nonempty, indent=1) + "\n").encode(), mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


def settings(folder: Path, values: Mapping[str, Any]) -> Iterator[Item]:
    """The settings that lower security or send data elsewhere, as items."""
    for name, value in values.items():
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=list)
        yield Item(str(folder), name, digest(f"{name}\n{text}".encode()), _shown(_given(value)))


def _given(value: Any) -> Any:
    """A value without what is empty in it, for reading."""
    if isinstance(value, Mapping):
        rest = {key: _given(each) for key, each in cast("Mapping[str, Any]", value).items()}
        return {key: each for key, each in rest.items() if each not in (None, {}, [])}
    if isinstance(value, list | tuple):
        return [_given(each) for each in cast("Iterable[Any]", value)]
    return value


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


Pins = dict[str, pinned.Digests]
"""The digests of folders of instructions as they were looked at, by folder; see `runtime.pinned`."""


def system(workspace: Workspace, pins: Pins) -> Iterator[Item]:
    """The files of the folder's own `system/` that are not those that ship.

    Raises `ConfigurationError` for what may not be there, such as a link.
    """
    own = workspace.root / "system"
    if workspace.shipped in workspace.systems[:1] or not own.is_dir():
        return
    pins[str(own)] = digests = pinned.digests(own)
    for name, mark in digests.items():
        if name != README and mark != digest_of(workspace.shipped / name):
            yield Item(str(workspace.root), f"system/{name}", mark, "a file of its system")


def hook_files(workspace: Workspace, config: Config, place: Path | None = None) -> Iterator[Item]:
    """The files of the workspace that its hooks name, as items: they are what runs.

    Hooks run in its folder. In `place`, a worktree of that, they have to be as they are allowed there.
    """
    place = place or workspace.folder
    for path in config.hooks_of_run().files(place, workspace.top):
        own = workspace.folder / path.relative_to(place) if place in path.parents else path
        yield Item(str(workspace.root), f"hook {own}", digest_of(path), "a file that a hook runs or reads")


def skills(folder: Path, paths: Iterable[Path], pins: Pins) -> Iterator[Item]:
    """The files of skills that the folder's settings name, wherever they lie."""
    for path in paths:
        pins[str(path)] = {}  # nothing that comes later
        for skill in found.skills_below(path):
            yield from _items(folder, skill, pins)


def _items(folder: Path, skill: Path, pins: Pins, *, optional: bool = False) -> Iterator[Item]:
    digests = pinned.digests(skill)
    pins[str(skill)] = pins[str(skill.resolve())] = digests
    for name, mark in digests.items():
        yield Item(str(folder), f"skill {skill / name}", mark, "a file of a skill", optional)


def found_skills(
    workspace: Workspace, config: Config, folder: Path, pins: Pins
) -> Iterator[tuple[found.FoundSkill, list[Item]]]:
    """The skills that need no setting, each with what has to be allowed: those of `folder`, then the user's.

    The user's own need nothing, unless they lie where a run works.
    """
    brought = [(each, True) for each in found.skills(folder, config.skill_folders)]
    theirs = {os.path.realpath(each.path) for each, _ in brought}
    for each in found.user_skills(config.user_skills):
        if (real := os.path.realpath(each.path)) not in theirs:
            brought.append((each, Path(real).is_relative_to(folder.resolve())))
    for skill, asked in brought:
        try:
            items = [] if skill.problem else list(_items(workspace.root, skill.path, pins, optional=True))
            yield skill, items if asked else []
        except ConfigurationError as error:
            yield replace(skill, problem=str(error)), []


def found_guidance(
    workspace: Workspace, config: Config, folder: Path
) -> tuple[found.Guidance | None, list[Item]]:
    """The file of guidance that `folder` brings along; what is digested is what is shown."""
    guidance = found.guidance(folder, config.instructions, workspace.private)
    if guidance is None or guidance.problem:
        return guidance, []
    mark = digest(b"%d\n%b" % (guidance.size, guidance.beginning))
    name = f"instructions {guidance.path}"
    shown = ", with ".join(["guidance for models", *filter(None, [", ".join(guidance.imported)])])
    return guidance, [Item(str(workspace.root), name, mark, shown, optional=True)]


def digest_of(path: Path) -> str:
    """The digest of a file's content; "" where there is none to read."""
    try:
        return digest(disk.read(path))
    except OSError:
        return ""


def changed(workspace: Workspace, files: Mapping[str, tuple[str, str]]) -> None:
    """Fractal itself has changed files of `system/`: each path, with the digests before and after.

    What was allowed, or did not exist, stays allowed. What was not allowed stays so.
    """
    if everything():
        return
    with _changing() as allowed:
        trusted = allowed.setdefault(str(workspace.root), {})
        for path, (before, after) in files.items():
            name = f"system/{path}"
            if before not in ("", trusted.get(name), digest_of(workspace.shipped / path)):
                continue
            trusted.pop(name, None)
            if after:
                trusted[name] = after


class Lowers(NamedTuple):
    """When a value that a folder's file gives lowers security."""

    words: str  # for docs/configuration.md
    holds: Callable[[Any, Any], bool]  # of the value, and of that which would be in effect without the file


def _is(word: str) -> Lowers:
    return Lowers(f"`{word}`", lambda value, without: str(value).lower() == word)


_always = Lowers("any value", lambda value, without: True)
_more = Lowers(
    "a higher limit, or none",
    lambda value, without: without is not None and (value is None or value > without),
)
_fewer = Lowers("fewer effects than your own file", lambda value, without: bool(set(without) - set(value)))
_foreign = Lowers(
    "`sentence:MODEL` or a plugin", lambda value, without: value not in ("auto", "lexical", "minilm")
)
PROVIDERS = frozenset(
    {"openai", "gemini", "mistral", "openrouter", "deepseek", "groq", "together_ai", "together", "anthropic"}
    | {"lm_studio", "lmstudio", "hosted_vllm", "vllm", "llamacpp", "ollama"}
)
"""Providers whose models a folder may choose: the addresses are Fractal's own, the keys are the user's."""


def _is_known(model: str | None) -> bool:
    provider, _, named = str(model).partition("/")
    return model in (None, "reflex", "person") or (bool(named) and provider in PROVIDERS)


def _only_chooses(rung: Any) -> bool:
    here = rung.api_base is None or is_loopback(rung.api_base)
    own = rung.options or rung.headers or rung.key_command
    return _is_known(rung.model) and here and not own and rung.price is None


CHOICES: Mapping[str, Lowers] = {
    "model": Lowers("a model of another provider than the known ones", lambda value, _: not _is_known(value)),
    "api_base": Lowers("an address that is not on this machine", lambda value, _: not is_loopback(value)),
    "ladder": Lowers(
        "a rung with another provider, an address elsewhere, a price, a key's command, headers or options",
        lambda value, _: not all(map(_only_chooses, value)),
    ),
}
"""Who reads the task. Where the file changed while a run worked, any value needs trust."""
NEEDS_TRUST: Mapping[str, Lowers] = {
    **CHOICES,
    "key_command": _always,  # it runs outside of the sandbox
    "headers": _always,  # they may send variables of the environment elsewhere
    "ca_bundle": _always,
    "price": _always,
    **dict.fromkeys(("calls", "tokens", "usd"), _more),
    "lifeforce": Lowers(
        "another pool than that of your own file", lambda value, without: without not in (None, value)
    ),
    "sandbox": _is("off"),
    "network": _is("true"),
    **dict.fromkeys(("process_mb", "memory_mb", "processes", "file_mb", "disk_mb"), _more),
    **dict.fromkeys(("files", "scratch_mb"), _more),
    "approve": _fewer,
    "approved": Lowers("any call beyond those of your own file", lambda value, without: True),
    "trusted_clients": _always,
    "review": Lowers(  # a model may then approve what else a person is asked for
        "`risky` or `always`", lambda value, without: value in ("risky", "always")
    ),
    "staged_until": Lowers("`use` or `gates`", lambda value, without: value != "approval"),
    "discovery": Lowers("`open`", lambda value, without: value != without),
    "keep_prompts": _is("true"),
    "shipped": _is("false"),  # the shipped rules of danger are gone with it
    "learn": _is("model"),
    "embedder": _foreign,
    "embedder_folder": _always,
    "store": Lowers("`postgres:NAME`", lambda value, without: value.startswith(POSTGRES)),
    "otel": _always,  # what runs do is sent there
    "otel_content": _is("true"),
    "admit": _is("auto"),
    "build": _is("auto"),
    "hooks": _always,
    "skills": _always,
    "user_skills": Lowers(
        "a folder that your own file does not name", lambda value, without: bool(set(value) - set(without))
    ),
    "operations": _always,
}
"""The settings that lower security or send data elsewhere, and when: a folder's file needs a person's trust
for these (see `lowered`). Every other setting stands in `HARMLESS`."""
HARMLESS = frozenset(
    {
        *("profile", "check", "max_depth", "retries", "turns", "questions", "seconds", "timeout"),
        *("context_system", "context_tool", "context_operation", "min_context", "side_by_side", "repairs"),
        *("context", "sees"),
        *("reply_tokens", "result_chars", "same_failure", "same_result", "fsync", "recall", "remember"),
        *("observe", "shown"),
        *("snapshot_every", "checkpoints", "checkpoint_hours"),
        *("patience", "unanswered"),
        *("agent", "agents", "space", "quarantine_after"),  # an agent's settings are checked apart
        *("skill_folders", "instructions"),  # what is found there is checked itself
    }
)
"""The settings that a folder's file may make without being asked about."""


def changed_by_run(root: Path) -> bool:
    """Whether the folder's settings are as somebody has left them while a run worked there."""
    return known().get(str(root), {}).get(CHANGED) == settings_digest(root)


def settings_digest(root: Path) -> str:
    """The digest of the folder's own files of settings."""
    return digest("\n".join(map(digest_of, settings_files(root))).encode())


_ours: set[str] = set()


def written(root: Path) -> None:
    """Fractal itself has written the folder's settings, as a person told it to."""
    _ours.add(settings_digest(root))


@contextmanager
def watching(root: Path) -> Generator[None]:
    """Note that the folder's settings have changed while a run worked there: they need a person's trust."""
    before = settings_digest(root)
    try:
        yield
    finally:
        if (after := settings_digest(root)) not in (before, *_ours) and not everything():
            with _changing() as allowed:
                allowed.setdefault(str(root), {})[CHANGED] = after


def lowering(root: Path, config: Config, sources: Mapping[str, str]) -> dict[str, Any]:
    """The settings in effect that the folder's own files make and that need a person's trust."""
    files = [str(path) for path in settings_files(root)]
    own = Config.model_validate(dict(read(user_file(), root)))
    values = config.model_dump(mode="json")
    lowered: dict[str, Any] = {}
    suspect = changed_by_run(root)
    for name, lowers in NEEDS_TRUST.items():
        value, without = getattr(config, name), getattr(own, name)
        ours = any(sources[name] == file or sources[name].startswith(f"{file}:") for file in files)
        if ours and value != without and (lowers.holds(value, without) or (suspect and name in CHOICES)):
            lowered[name] = values[name]
    if sources["skills"] == "flag":  # in addition to those that the files name
        lowered |= {"skills": named} if (named := list(map(str, _of_files(root, config, "skills")))) else {}
    return lowered


def _of_files(root: Path, config: Config, name: str) -> list[Any]:
    """What the folder's files list under a setting, for everybody and for the agent at work."""
    layers = [read(path, root) for path in settings_files(root)]
    layers += [layer["agents"].get(config.agent) or {} for layer in layers if layer.get("agents")]
    return [each for layer in layers for each in layer.get(name) or ()]


def approved(root: Path, call: Mapping[str, Any]) -> Item:
    """A call that the folder's file approves, as an item of its own: others may come and go."""
    text = json.dumps(call, ensure_ascii=False, sort_keys=True, default=str)
    mark = digest(f"approved\n{text}".encode())
    return Item(str(root), f"approved {call.get('tool')} {mark[:8]}", mark, _shown(call))


def asks_for(
    workspace: Workspace,
    config: Config,
    sources: Mapping[str, str],
    *,
    optional: bool = True,
    pins: Pins | None = None,
) -> list[Item]:
    """What the folder's own files ask for that a person has to allow, whether they have or not.

    With `optional` also the skills and guidance that it brings along, whose files are read for this. `pins`
    gets the digests of all files below the folders of instructions that were looked at.
    """
    pins = {} if pins is None else pins
    root, folder = workspace.root, workspace.folder
    values = lowering(root, config, sources)
    names_of_skills = (root / Path(name).expanduser() for name in values.get("skills", ()))
    skill_paths = [Path(os.path.normpath(path)) for path in names_of_skills]
    values.pop("approved", None)
    own = read(user_file(), root).get("approved") or ()
    calls = [call for call in _of_files(root, config, "approved") if call not in own]
    named = [*settings(root, values), *(approved(root, call) for call in calls)]
    named += hook_files(workspace, config) if "hooks" in values else ()
    named += [*ownership.items(workspace.state), *system(workspace, pins), *skills(root, skill_paths, pins)]
    if not optional:
        return named
    brought = [item for _, items in found_skills(workspace, config, folder, pins) for item in items]
    brought += found_guidance(workspace, config, folder)[1]
    names = {item.name for item in named}
    return [*named, *(item for item in brought if item.name not in names)]
