"""Which models a client may choose: a name such as `scripted:/path` would open a file of the owner's."""

from __future__ import annotations

from contextlib import suppress

from kernel.errors import FractalError, UsageError
from runtime.api.fractal import Fractal
from runtime.models.ladder import rungs
from runtime.workspace.settings import read, user_file


def refuse_unconfigured(fractal: Fractal, model: str) -> None:
    """Raise `UsageError` for a model that neither the settings nor those of an agent name."""
    if model not in (known := _configured(fractal)):
        raise UsageError(
            f"{model}: a client chooses among the models of the settings: {', '.join(sorted(known))}; "
            "to offer another one, name it in the settings, such as `agents: {NAME: {model: …}}`"
        )


def _configured(fractal: Fractal) -> set[str]:
    known = {"reflex", "person", *(rung.model for rung in rungs(fractal.config))}
    own = read(user_file(), fractal.workspace.root).get("agents") or {}
    for agent in dict.fromkeys((*own, *fractal.config.agents)):
        with suppress(FractalError):  # an agent whose settings are wrong, or not allowed, offers nothing
            chosen = Fractal(fractal.workspace.folder, settings={"agent": agent})
            chosen.refuse_untrusted()
            known.update(rung.model for rung in rungs(chosen.config))
    return known
