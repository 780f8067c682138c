"""`fractal brain`: moves, checks and repairs memory, and reports its decisions, methods and problem types."""

from __future__ import annotations

import click

from runtime.cli import brain_compare, brain_figures, brain_methods, brain_store


@click.group()
def brain() -> None:
    """Move, check and repair memory, and see what its decisions led to.

    Memory is in state/memory/ of the workspace, or of the space that the setting `space` names, in the store
    that `store` names.
    """


for each in (
    brain_store.export,
    brain_store.import_,
    brain_store.check,
    brain_store.rebuild,
    brain_store.checkpoint,
    brain_figures.report,
    brain_figures.curve,
    brain_figures.explain,
    brain_compare.compare,
    brain_methods.methods,
    brain_methods.substrates,
    brain_methods.release,
):
    brain.add_command(each)
