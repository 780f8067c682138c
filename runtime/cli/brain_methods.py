"""`fractal brain methods`, `substrates`, `release`: what memory has learned from solved tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import click

from kernel.errors import UsageError
from runtime.api.brain_report import shelf_or_empty
from runtime.cli import bench
from runtime.cli.brain_store import shelf_of_workspace
from runtime.cli.output import (
    Columns,
    elide,
    emit,
    local,
    notify,
    picked,
    print_line,
    print_list,
    print_table,
)
from runtime.cli.session import json_option, opened
from runtime.memory.embed.lexical import Lexical
from runtime.memory.tasks import explaining, rewards
from runtime.memory.tasks.decisions import in_order
from runtime.memory.tasks.methods import Listed, Methods
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import ProblemType
from runtime.memory.tasks.words import words_of
from runtime.reflexes.procedure import METHODS
from runtime.reflexes.trial import Trial


@click.command("release")
@click.argument("tree")
def release(tree: str) -> None:
    """Take a solved task out of quarantine: TREE is the beginning of its id, as `report` shows it."""
    with shelf_or_empty(opened()) as shelf:
        trees = [each for each in shelf.scan(NeuronTree) if each.id.startswith(tree)]
        if len(trees) != 1:
            raise UsageError(f"{len(trees) or 'no'} solved tasks have an id beginning with {tree}")
        if not trees[0].ledger.quarantined:
            notify(f"{trees[0].id[:8]} is not in quarantine")
            return
        rewards.release(shelf, trees[0].id)
    notify(f"{trees[0].id[:8]} is used again; two more failures would quarantine it again")


@click.command("methods")
@click.argument("action", type=click.Choice(["list", "show", "on", "off"]), default="list")
@click.argument("name", required=False)
@json_option("Print the list as objects; of one method an object, for `show` with its source tasks and text.")
def methods(action: str, name: str | None) -> None:
    """List the learned methods: procedures that five or more solved tasks have in common.

    `show NAME` prints the file of a method, `off NAME` switches it off, `on NAME` switches it on again and
    restores a deleted file. The files are in state/memory/methods/, in the format of the reflexes. You can
    read, correct or delete them.
    """
    if (action == "list") != (name is None):
        raise click.UsageError("give an action and the NAME of a method: show, on or off")
    with _methods() as store:
        if name is None:
            listed = store.listed()
        elif action == "show":
            listed = [each for each in store.listed() if each.name == name]
        else:
            listed = [store.switch(name, action == "on")]
    if name is None:
        emit([_entry(each) for each in listed])
    elif not listed:
        raise UsageError(f"there is no method {name}; list them: fractal brain methods")
    elif action == "show":
        path = listed[0].file
        text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
        emit({**_entry(listed[0]), "trees": listed[0].trees, "text": text})
        _print_methods(listed)
        print_line(f"\n{path}\n\n{text}" if text else f"\n{path} was deleted")
        return
    else:
        emit(_entry(listed[0]))
    _print_methods(listed)


@contextmanager
def _methods() -> Iterator[Methods]:
    """The methods of this workspace."""
    folder = opened().memory.folder / METHODS
    systems = tuple(opened().systems)
    with (
        closing(shelf_of_workspace(required=False)) if folder.is_dir() else shelf_or_empty(opened()) as shelf
    ):
        yield Methods(shelf, Lexical(), words_of(systems), folder, Trial(systems))


def _entry(method: Listed) -> dict[str, Any]:
    names = ("name", "kind", "stage", "uses", "right", "status", "edited", "note")
    return picked(method, *names) | {"file": str(method.file)}


def _print_methods(methods: Sequence[Listed]) -> None:
    home = opened().workspace.state.parent
    shown: Columns = {
        "NAME": "name",
        "KIND": "kind",
        "STAGE": "stage",
        "USES": "uses",
        "RIGHT": lambda each: f"{each.right:g}",
        "STATUS": lambda each: f"{each.status}, edited" if each.edited else each.status,
        "FILE": lambda each: "" if each.status == "deleted" else each.file.relative_to(home),
    }
    if not methods:
        print_line("no methods learned yet; five tasks that were solved in the same way make one")
        return
    print_table(shown, methods)
    for method in methods:
        if method.note:
            print_line(f"{method.name}: {method.note}")


@click.command("substrates")
@click.option("--all", "archived", is_flag=True, help="Include archived ones.")
@bench.run_option
@json_option("Print a list of objects: id, label, origin, members, uses, scope, temperature, used.")
def substrates(archived: bool, bench_run: str | None) -> None:
    """List the learned problem types, most used first."""
    benched = bench.enter(bench_run) if bench_run else None
    with shelf_or_empty(opened()) as shelf:
        types = [each for each in shelf.scan(ProblemType) if archived or each.origin != "archived"]
        if benched:
            met = {each.type for each in in_order(shelf, benched.runs)}
            types = [each for each in types if each.id in met]
        examples = {each.id: explaining.example_of(shelf, each.id) for each in types}
    types.sort(key=lambda each: (-each.uses, -each.members, each.id))
    names = ("id", "label", "origin", "members", "uses", "created", "updated", "used")
    rounded = [{name: round(getattr(each, name), 4) for name in ("scope", "temperature")} for each in types]
    emit([picked(each, *names) | more for each, more in zip(types, rounded, strict=True)])
    shown: Columns = {
        "NAME": lambda each: elide(each.label, 32),
        "EXAMPLE": lambda each: elide(found.task if (found := examples[each.id]) else "", 40),
        "ORIGIN": "origin",
        "MEMBERS": "members",
        "USES": "uses",
        "SCOPE": lambda each: f"{each.scope:.2f}",
        "TEMPERATURE": lambda each: f"{each.temperature:.2f}",
        "LAST USE": lambda each: local(each.used) or "never",
    }
    print_list(types, shown, "no problem types learned here yet")
