"""Responders: models, a mailbox, recordings, scripts, a person. Each is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel.asking.responder import Responder, Tier
from kernel.errors import ConfigurationError

Make = Callable[[str, Tier, dict[str, Any], Path], Responder]


def make_responder(
    spec: str, *, tier: Tier = "worker", settings: Mapping[str, Any] | None = None, state: Path
) -> Responder:
    """The responder that `--model` or a rung of `ladder:` names. No model is called or loaded.

    spec: `scripted:FILE`, `replay:RUN`, `mailbox`, `llama:PATH.gguf`, or any name that litellm knows.
    settings: the keyword arguments of its class, with `price` in the form of a settings file; timeout,
    api_base and price are ignored by responders that are not providers.
    state: the workspace's `state/`.
    Raises `ConfigurationError` when something is missing or invalid.
    """
    kind, colon, rest = spec.partition(":")
    given = dict(settings or {})
    try:
        make = _KINDS.get(kind) if colon or kind == "mailbox" else None
        if make is None:
            return _litellm(spec, tier, given, state)
        if kind != "mailbox" and not rest:
            raise ConfigurationError(f"{kind}: what is missing after the colon? {_FORMS[kind]}")
        return make(
            rest, tier, {name: each for name, each in given.items() if name not in _OF_PROVIDERS}, state
        )
    except TypeError as error:
        raise ConfigurationError(f"{spec}: a setting is unknown or has the wrong type: {error}") from None


def _scripted(rest: str, tier: Tier, settings: dict[str, Any], state: Path) -> Responder:
    from runtime.models.scripted import Scripted

    return Scripted.from_file(Path(rest).expanduser(), tier=tier, **_priced(settings))


def _replay(rest: str, tier: Tier, settings: dict[str, Any], state: Path) -> Responder:
    from runtime.models.replay import Replay, find_log

    return Replay(find_log(rest, state), tier=tier, **{"name": f"replay:{rest}", **_unpriced(settings)})


def _mailbox(rest: str, tier: Tier, settings: dict[str, Any], state: Path) -> Responder:
    from runtime.models.mailbox import Mailbox

    return Mailbox(state / "mailbox", tier=tier, **_unpriced(settings))


def _llama(rest: str, tier: Tier, settings: dict[str, Any], state: Path) -> Responder:
    from runtime.models.llama import Llama

    return Llama(Path(rest).expanduser(), tier=tier, **_unpriced(settings))


def _litellm(spec: str, tier: Tier, settings: dict[str, Any], state: Path) -> Responder:
    from runtime.models.litellm import LiteLLM
    from runtime.models.prices import litellm_folder

    if not spec.strip():
        raise ConfigurationError("no model is named; set FRACTAL_MODEL or --model, such as ollama/llama3.2")
    if litellm_folder() is None:
        raise ConfigurationError(f"{spec} needs litellm: pip install 'fractal-runtime[llm]'")
    return LiteLLM(spec, tier=tier, **_priced(settings))


def _unpriced(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in settings.items() if name != "price"}


def _priced(settings: dict[str, Any]) -> dict[str, Any]:
    if "price" not in settings:
        return settings
    from runtime.models.prices import Price

    return settings | {"price": Price.read(settings["price"])}


_KINDS: dict[str, Make] = {"scripted": _scripted, "replay": _replay, "mailbox": _mailbox, "llama": _llama}
_OF_PROVIDERS = frozenset({"timeout", "api_base"})
_FORMS = {"scripted": "scripted:FILE.yaml", "replay": "replay:RUN", "llama": "llama:PATH.gguf"}
