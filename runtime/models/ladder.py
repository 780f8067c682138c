"""Builds the ladder from the settings: reflex, then the model or the named rungs, then a person."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kernel.asking.responder import Ladder, Responder
from runtime.addresses import shown
from runtime.models.endpoints import ENDPOINTS
from runtime.variables import unquoted
from runtime.workspace.settings import Config, Rung, Timeouts

if TYPE_CHECKING:
    from runtime.memory.run_memory import RunMemory

KEYS: Mapping[str, str] = {"ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5"} | {
    each.key: f"{name}/{each.default}" for name, each in ENDPOINTS.items() if each.key
}
"""The default: the first provider whose key is set, and its model."""


def default_model() -> str | None:
    """The model of the first provider whose key is in the environment."""
    return next((model for key, model in KEYS.items() if unquoted(os.environ.get(key, ""))), None)


def rungs(config: Config) -> list[Rung]:
    """The rungs of the settings."""
    if config.ladder:
        return list(config.ladder)
    model = config.model or default_model()
    named = [Rung.model_validate({"model": "reflex"})]
    if model and model != "reflex":
        default = {"model": model, "api_base": config.api_base, "price": config.price}
        default |= {"timeout": config.timeout, "context": config.context, "sees": config.sees}
        default |= {"key_command": config.key_command, "headers": config.headers}
        named.append(Rung.model_validate(default))
    return [*named, Rung.model_validate({"model": "person"})]


def build(
    config: Config,
    systems: Sequence[Path],
    state: Path,
    memory: RunMemory | None = None,
    folder: Path | None = None,
) -> Ladder:
    """Build the ladder. A rung's library is imported at its first ask. Raises `ConfigurationError`.

    With `memory`, a rung for solved tasks follows the reflexes, and one for known facts if there is no model.
    `folder` is where its tasks find their files.
    """
    named = rungs(config)
    responders: list[Responder] = []
    makers: dict[str, str] = {}
    if memory is not None:
        memory.makers = makers
    for place, rung in enumerate(named):
        if rung.model == "reflex" and memory is not None and config.recall:
            from runtime.reflexes.known import Known
            from runtime.reflexes.recalled import Recalled
            from runtime.reflexes.reflex import Reflex, trust_all

            checked = any(each.model != "person" for each in named[place + 1 :])
            doubt = memory.doubt if checked else trust_all
            responders += [
                Reflex([memory.methods, *systems], doubt, folder, memory.present),
                Recalled(memory, checked=checked),
            ]
            if not checked:
                responders.append(Known(memory))
        elif rung.model == "person":
            from runtime.models.human import Human

            suggesting = (each for each in responders if isinstance(each, Suggesting))
            responders.append(Human([each.suggestion for each in suggesting]))
        else:
            responders.append(_responder(rung, config, systems, state, folder))
        if rung.model != "reflex":
            at = f" at {shown(rung.api_base)}" if rung.api_base else ""
            makers[responders[-1].name] = f"{rung.model}{at}"
    return Ladder(tuple(responders))


def _responder(
    rung: Rung, config: Config, systems: Sequence[Path], state: Path, folder: Path | None
) -> Responder:
    if rung.model == "reflex":
        from runtime.reflexes.reflex import Reflex

        return Reflex(systems, place=folder)
    from runtime.models import make_responder

    limits = rung.timeout.model_dump() if isinstance(rung.timeout, Timeouts) else rung.timeout
    settings: dict[str, Any] = {"timeout": limits, **rung.options}
    given = {name: getattr(rung, name) for name in ("api_base", "key_command", "headers", "context")}
    settings |= {name: value for name, value in {**given, "ca_bundle": config.ca_bundle}.items() if value}
    if rung.sees is not None:
        settings["sees"] = rung.sees
    if rung.price:
        settings["price"] = rung.price.model_dump()
    responder = make_responder(rung.model, tier=rung.tier, settings=settings, state=state, systems=systems)
    if rung.phases:
        responder.phases = frozenset(rung.phases)
    if rung.lifeforce is not None:
        responder.lifeforce = rung.lifeforce
    return responder


@runtime_checkable
class Suggesting(Protocol):
    """A responder that has something to say on a task that nobody can do."""

    def suggestion(self, task: str) -> str:
        """A sentence, "" for none."""
        ...
