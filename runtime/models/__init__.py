"""Responders: models, a mailbox, recordings, scripts, a person. Each is imported when it is used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.asking.responder import Responder, Tier
from kernel.errors import ConfigurationError
from runtime import plugins

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OF_PROVIDERS = frozenset({"api_base", "key_command", "headers", "ca_bundle"})
"""What settings say of a server, and a model in this process has no use for."""
SMALL = 8.0
"""Billions of parameters below which a local model is asked in small questions. Source: small-models.md."""


def make_responder(
    spec: str,
    *,
    tier: Tier = "worker",
    settings: Mapping[str, Any] | None = None,
    state: Path,
    systems: Sequence[Path] = (),
) -> Responder:
    """The responder that `--model` or a rung of `ladder:` names. No model is called or loaded.

    spec: `scripted:FILE`, `replay:RUN`, `mailbox`, `llama:PATH.gguf`, `NAME:…` of a plugin, `openai/…` and
    the other names of `endpoints`, or any name that litellm knows.
    settings: `form` (micro, json or native; default by the model's size and its server), `attempts` of a
    small model, and the keyword arguments of its class, with `price` in the form of a settings file; timeout,
    price and `OF_PROVIDERS` are ignored by responders that are not providers. `context` is the window of any.
    state: the workspace's `state/`.
    systems: the folders of instructions, from whose words a small model's tasks are understood.
    Raises `ConfigurationError` when something is missing or invalid.
    """
    options = dict(settings or {})
    form = options.pop("form", None)
    attempts = options.pop("attempts", None)
    fixed = re.match(r"(scripted|replay|llama|mailbox)\b", spec) or _plugin(spec)
    if form in ("native", "json") and not fixed:
        options["native"] = form == "native"
    elif form == "native":
        raise ConfigurationError(f"{spec}: form: native is for models of providers and servers; use json")
    model = _model(spec, tier, options, state)
    form = form or model.form or default_form(spec)
    if form == "micro":
        from runtime.models.micro.micro import ATTEMPTS, Micro

        return Micro(model, systems, attempts=attempts or ATTEMPTS)
    return model


def default_form(spec: str) -> str:
    """The form of questions that suits a model: `micro` for a local one below `SMALL`, else `json`."""
    kind, _, rest = spec.partition(":")
    if kind == "llama":
        from runtime.models.gguf import billions

        return "micro" if billions(Path(rest).expanduser()) < SMALL else "json"
    if spec.startswith("ollama"):
        size = re.search(r"(\d+(?:\.\d+)?)b\b", rest)
        return "micro" if size and float(size[1]) < SMALL else "json"
    return "json"


def _model(spec: str, tier: Tier, options: dict[str, Any], state: Path) -> Responder:
    """The responder that puts whole phases to a model."""
    from runtime.models.prices import Price, litellm_folder

    kind, colon, rest = spec.partition(":")
    price: dict[str, Any] = {"price": Price.read(options.pop("price"))} if "price" in options else {}
    given = {"timeout": seconds} if (seconds := options.pop("timeout", None)) else {}
    own = {name: each for name, each in options.items() if name not in OF_PROVIDERS}
    if colon and kind in _FORMS and not rest:
        raise ConfigurationError(f"{kind}: what is missing after the colon? {_FORMS[kind]}")
    try:
        if colon and kind == "scripted":
            from runtime.models.scripted import Scripted

            return Scripted.from_file(Path(rest).expanduser(), tier=tier, **own, **price)
        if colon and kind == "replay":
            from runtime.models.replay import Replay, find_log

            return Replay(find_log(rest, state), tier=tier, **{"name": spec, **own})
        if colon and kind == "llama":
            from runtime.models.llama import Llama

            return Llama(Path(rest).expanduser(), tier=tier, **given, **own)
        if kind == "mailbox":
            from runtime.models.mailbox import Mailbox

            return Mailbox(state / "mailbox", tier=tier, **own)
        if plugin := _plugin(spec):
            return _of_plugin(plugin, rest, tier, own)
        if not spec.strip():
            raise ConfigurationError(
                "no model is named; set FRACTAL_MODEL or --model, such as ollama/llama3.2"
            )
        from runtime.models.servers import FILE, Servers

        servers = Servers(state / FILE)
        if _speaks_openai(spec, options.get("api_base")):
            from runtime.models.openai_client import OpenAI

            return OpenAI(spec, tier=tier, servers=servers, **given, **options, **price)
        if litellm_folder() is None:
            raise ConfigurationError(f"{spec} needs litellm: pip install 'fractal-runtime[llm]'")
        from runtime.models.litellm import LiteLLM

        return LiteLLM(spec, tier=tier, servers=servers, **given, **options, **price)
    except TypeError as error:
        raise ConfigurationError(f"{spec}: a setting is unknown or has the wrong type: {error}") from None


def _plugin(spec: str) -> EntryPoint | None:
    """The plugin that a name belongs to, if any."""
    name, colon, _ = spec.partition(":")
    return plugins.installed(plugins.RESPONDERS).get(name) if colon else None


def _of_plugin(entry: EntryPoint, rest: str, tier: Tier, options: Mapping[str, Any]) -> Responder:
    """The responder that a plugin makes for what follows its name and the colon."""
    responder = plugins.make(entry, rest, tier=tier, **options)
    if not isinstance(responder, Responder):
        raise ConfigurationError(
            f"{plugins.named(entry)}: {type(responder).__name__} is no responder; see docs/plugins.md"
        )
    return responder


def _speaks_openai(spec: str, api_base: str | None) -> bool:
    """Whether the model's server has OpenAI's chat completions, so that litellm is not needed."""
    from runtime.models.endpoints import ALIASES, ENDPOINTS, RESPONSES

    first, slash, rest = spec.partition("/")
    if rest.startswith(RESPONSES):
        return False
    return ALIASES.get(first, first) in ENDPOINTS if slash else api_base is not None


_FORMS = {"scripted": "scripted:FILE.yaml", "replay": "replay:RUN", "llama": "llama:PATH.gguf"}
SHIPPED = frozenset({*_FORMS, "mailbox", "reflex", "person"})
"""Names that no plugin replaces."""
