"""Commands of the nervous system: `fractal growth`, `lifeforce`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from kernel import disk
from runtime.cli.output import Columns, emit, notify, print_line, print_list
from runtime.cli.session import json_option, opened
from runtime.nervous.growth import Month, svg


@click.command()
@json_option("Print an array of months.")
@click.option("--months", default=12, type=click.IntRange(1, 600), show_default=True, help="How many months.")
@click.option("--svg", "picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw to this file.")
def growth(months: int, picture: Path | None) -> None:
    """Show by month: tasks, tools added and discovered, escalations, first tries, autonomy."""
    found = opened().growth(months)
    if picture:
        with disk.writing_state(picture):
            disk.put(picture, svg(found).encode())
        notify(f"drawn to {picture}")

    def share(name: str) -> Callable[[Month], str]:
        def cell(month: Month) -> str:
            value: float | None = getattr(month, name)
            return "–" if value is None else f"{value:.0%}"

        return cell

    shown: Columns = {
        "MONTH": "month",
        "TASKS": "tasks",
        "TOOLS ADDED": "tools",
        "DISCOVERED": "discovered",
        "ESCALATIONS": lambda month: f"{month.escalations} ({share('escalation_rate')(month)})",
        "FIRST TRY": share("first_try"),
        "AUTONOMY": share("autonomy"),
    }
    print_list(found, shown, "nothing was done yet", right=(1, 2, 3, 4, 5, 6))


@click.command()
@json_option("Print an object: agent, capacity, per_hour, free, reserved.")
def lifeforce() -> None:
    """Show the lifeforce of the agent: what is free, reserved, and restored by time."""
    pool = opened().lifeforce
    if pool is None:
        emit({})
        notify(
            "lifeforce is not counted; `lifeforce: {capacity: 100, per_hour: 20}` in fractal.yaml turns it on"
        )
        return
    level, rate = pool.level(), pool.pool
    free, reserved = round(level.free, 3), round(level.reserved, 3)
    emit({"agent": pool.agent, **rate.model_dump(), "free": free, "reserved": reserved})
    held = f", {reserved:g} reserved by {', '.join(level.held)}" if level.held else ""
    print_line(
        f"{pool.agent}: {free:.4g} of {rate.capacity:g} free{held}; time restores {rate.per_hour:g} an hour"
    )
