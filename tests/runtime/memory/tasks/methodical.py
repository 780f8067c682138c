"""Solved tasks that have a method in common, and what learns methods from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from growing import words

from runtime.api.fractal import shipped_system
from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.methods import Method, Methods
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.reflexes.matching import match
from runtime.reflexes.planning import draft
from runtime.reflexes.procedure import Reflexes
from runtime.reflexes.trial import Trial

Step = tuple[str, dict[str, Any]]
PAIRS = [("a.md", "n.txt"), ("b.md", "m.txt"), ("docs/c.md", "m.txt"), ("d.md", "o.txt"), ("e.md", "p.txt")]
TALLY = "tally the lines of {} and note the figure in {}"
BUYS = "{} buys {} boxes of {} for ${} each. How much does {} pay in total for the {}?"
WORDED = [("Tom", 3, "apples", 4), ("Anna", 5, "pears", 7), ("Ben", 5, "apples", 6), ("Tom", 3, "plums", 9)]
WORDED += [("Joe", 9, "figs", 4)]


def solved(task: str, *steps: Step, **more: Any) -> Exemplar:
    made = tuple({"tool": tool, "args": args, "needs": []} for tool, args in steps)
    return Exemplar(task=task, steps=made, **more)


def tally(source: str, to: str, wording: str = TALLY, what: str = "lines") -> Exemplar:
    count: Step = ("count", {"what": what, "path": source, "format": "total"})
    write: Step = ("write", {"path": to, "content": "{{steps[1].result}}\n"})
    success = ({"file": to, "has": r"\d"}, {"judge": "the number is right"})
    return solved(wording.format(source, to), count, write, success=success, output=f"Noted in {to}")


def bought(name: str, boxes: int, thing: str, price: int, expression: str = "{} * {}") -> Exemplar:
    task = BUYS.format(name, boxes, thing, price, name, thing)
    calc: Step = ("calc", {"expression": expression.format(boxes, price)})
    return solved(task, calc, output="{{ steps[1].result }}")


TRIAL = Trial([shipped_system()])


class Learner:
    """What learns solved tasks, and considers a method after each."""

    def __init__(self, shelf: Shelf, folder: Path) -> None:
        self.folder = folder / "methods"
        self.memory = ProceduralMemory(shelf, Lexical(), words())
        self.methods = Methods(shelf, self.memory.embedder, words(), self.folder, TRIAL)

    def learn(self, *exemplars: Exemplar) -> list[Method]:
        found = [self.methods.consider(self.memory.learn(each)) for each in exemplars]
        return [each for each in found if each]

    def file(self) -> Path:
        (path,) = self.folder.glob("*.md")
        return path

    def plans(self, task: str) -> Any:
        found = match(task, Reflexes([self.folder, shipped_system()]).shelf)
        return found and draft(found, 0).steps


def five() -> list[Exemplar]:
    return [tally(*pair) for pair in PAIRS]


def front(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text("utf-8").split("---\n")[1])
