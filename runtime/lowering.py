"""Which settings of a folder's own files lower security or send data elsewhere: they need trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel.workspace import Workspace, settings_files
from runtime import trust
from runtime.config import Config, read, user_file

Lowers = Callable[[Any, Any], bool]
"""Whether a value that a folder's file gives lowers security, beside the value that would hold without it."""


def _always(value: Any, without: Any) -> bool:
    return True


def _more(value: Any, without: Any) -> bool:
    return without is not None and (value is None or value > without)


def _fewer(value: Any, without: Any) -> bool:
    return bool(set(without) - set(value))


def _foreign(value: Any, without: Any) -> bool:
    return value not in ("auto", "lexical", "minilm")


def _is(word: str) -> Lowers:
    def lowers(value: Any, without: Any) -> bool:
        return str(value).lower() == word

    WHEN[lowers] = f"`{word}`"
    return lowers


WHEN: dict[Lowers, str] = {
    _always: "any value",
    _more: "a higher limit, or none",
    _fewer: "fewer effects than your own file",
    _foreign: "`sentence:MODEL`",
}
"""The same in words, for docs/configuration.md."""
NEEDS_TRUST: Mapping[str, Lowers] = {
    **dict.fromkeys(("model", "api_base", "price", "ladder"), _always),  # who reads the task, at what price
    **dict.fromkeys(("calls", "tokens", "usd"), _more),
    "sandbox": _is("off"),
    "network": _is("true"),
    **dict.fromkeys(("process_mb", "memory_mb", "processes", "file_mb", "disk_mb"), _more),
    **dict.fromkeys(("files", "scratch_mb"), _more),
    "approve": _fewer,
    "trusted_clients": _always,
    "shipped": _is("false"),  # the shipped rules of danger are gone with it
    "learn": _is("model"),
    "embedder": _foreign,
    "embedder_folder": _always,
    "admit": _is("auto"),
    "build": _is("auto"),
    "skills": _always,
    "operations": _always,
}
"""The settings that lower security or send data elsewhere, and when: a folder's file needs a person's trust
for these (see `runtime.trust`). Every other setting stands in `HARMLESS`."""
HARMLESS = frozenset(
    {
        *("profile", "fuse", "max_depth", "retries", "questions", "seconds", "context_system"),
        *("context_tool", "context_operation", "min_context", "side_by_side", "repairs", "reply_tokens"),
        *("result_chars", "same_failure", "fsync", "recall", "remember", "observe", "shown", "agent"),
        *("agents", "space", "store", "quarantine_after"),  # what an agent sets is looked at by itself
    }
)
"""The settings that a folder's file may make without being asked about."""


def lowering(root: Path, config: Config, sources: Mapping[str, str]) -> dict[str, Any]:
    """The settings in effect that the folder's own files make and that need a person's trust."""
    files = [str(path) for path in settings_files(root)]
    mine = Config.model_validate(dict(read(user_file(), root)))
    values = config.model_dump(mode="json")
    found: dict[str, Any] = {}
    for name, lowers in NEEDS_TRUST.items():
        value, without = getattr(config, name), getattr(mine, name)
        ours = any(sources[name] == file or sources[name].startswith(f"{file}:") for file in files)
        if ours and value != without and lowers(value, without):
            found[name] = values[name]
    if sources["skills"] == "flag":  # these stand beside those that the files name
        found |= {"skills": named} if (named := _skills_of(root, config.agent)) else {}
    return found


def _skills_of(root: Path, agent: str) -> list[str]:
    """The skills that the folder's files name, for everybody and for the agent at work."""
    layers = [read(path, root) for path in settings_files(root)]
    layers += [layer["agents"].get(agent) or {} for layer in layers if layer.get("agents")]
    return [str(name) for layer in layers for name in layer.get("skills", ())]


def asks_for(workspace: Workspace, config: Config, sources: Mapping[str, str]) -> list[trust.Item]:
    """What the folder's own files ask for that a person has to allow, whether they have or not."""
    root = workspace.root
    values = lowering(root, config, sources)
    named = [root / Path(name).expanduser() for name in values.get("skills", ())]
    return [*trust.settings(root, values), *trust.system(workspace), *trust.skills(root, named)]
