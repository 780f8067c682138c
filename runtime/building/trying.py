"""What is there already, on trial: a learned pattern, or a change of the system, against what was before it.

What is shown to do worse is taken back. (What is not there yet is tried by `adopting.py`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kernel.errors import UsageError
from kernel.workspace import Workspace
from runtime.building.adopting import Purse, Task, compared, done
from runtime.building.contents import File
from runtime.building.samples import Play, Tested
from runtime.memory.learning.trials import Compared


@dataclass(frozen=True)
class Side:
    """One of the two ways that tasks are done: changes of the system, and the learned patterns."""

    name: str
    system: Mapping[str, File | None] = field(default_factory=dict[str, "File | None"])
    patterns: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass
class Comparison:
    """The same tasks, done both ways in workspaces of their own."""

    workspace: Workspace
    play: Play
    purse: Purse
    told: Callable[[Tested, str], None] = field(default=lambda tested, how: None)

    async def run(self, tasks: Sequence[Task], present: Side, tried: Side) -> Compared:
        """Each task with the one and with the other; the order turns, so that neither has the fresher model.

        Raises `UsageError` where there is no task.
        """
        if not tasks:
            raise UsageError("a trial needs sample tasks: put some into system/samples/")
        found: dict[str, list[Tested]] = {present.name: [], tried.name: []}
        for number, task in enumerate(tasks):
            for side in (present, tried) if number % 2 == 0 else (tried, present):
                tested = await done(
                    self.workspace,
                    self.play,
                    self.purse,
                    task,
                    side.name,
                    side.system,
                    side.patterns,
                    self.told,
                )
                found[side.name].append(tested)
        return compared(found[present.name], found[tried.name])
