"""Slots that read what recall takes for a leaf, a name or a noun, and the folder of learned methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.api.fractal import shipped_system
from runtime.memory.tasks.signing import signed
from runtime.reflexes.matching import match
from runtime.reflexes.procedure import Reflexes
from runtime.reflexes.slots import Earlier
from runtime.reflexes.trial import Trial

FILE = """---
name: probe
phrasings: |
  {phrasing}
slots: {slots}
steps:
  - tool: calc
    args: {args}
success:
  - {{step: 1, has: .}}
status: {status}
---
"""


def read(phrasing: str, slots: str, task: str, prior: tuple[Earlier, ...] = ()) -> Any:
    """The slots of the task, or None."""
    found = match(task, shelf(phrasing, slots), prior)
    return found and {name: str(value) for name, value in found.slots.items()}


def shelf(phrasing: str, slots: str, status: str = "active") -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        place = Path(made) / "methods"
        place.mkdir(parents=True)
        text = signed(FILE.format(phrasing=phrasing, slots=slots, args="{}", status=status), [])
        (place / "probe.md").write_text(text, "utf-8")
        found = Reflexes([place, shipped_system()])
        assert not found.faults
        own = [each for each in found.shelf.procedures if each.name == "probe"]
        return type(found.shelf)(**{**vars(found.shelf), "procedures": tuple(own)})


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("exact number", "3", "3"),
        ("exact number", "1,200", "1200"),
        ("exact number", "twenty-five", "25"),
        ("exact number", "twenty five", "25"),
        ("exact number", "0.5", "0.5"),
        ("exact number", "$3", None),
        ("exact number", "3%", None),
        ("exact number", "3.md", None),
        ("exact amount", "$3", "3"),
        ("exact amount", "3 dollars", "3"),
        ("exact amount", "3", None),
        ("exact amount", "€3", None),
        ("exact euros", "€3", "3"),
        ("exact cents", "75 cents", "75"),
        ("exact number", "1/3", None),
        ("exact percent", "15%", "15"),
        ("exact percent", "15 percent", "15"),
        ("exact percent", "15", None),
        ("exact path", "docs/a.md", "docs/a.md"),
        ("exact path", '"docs/a.md"', None),
        ("exact path", "it", None),
        ("exact url", "https://a.b/c?d=e", "https://a.b/c?d=e"),
        ("exact text", '"a b"', "a b"),
        ("exact text", "ab", None),
        ("proper name", "Tom", "Tom"),
        ("proper name", "tom", None),
        ("proper name", "Tom's", None),
        ("owner", "Tom's", "Tom"),
        ("noun", "apples", "apples"),
        ("noun", "hours", None),
        ("noun", "3", None),
    ],
)
def test_what_a_kind_reads(kind: str, text: str, value: str | None) -> None:
    prior = (Earlier(frozenset({"text", "file"}), "x", "x.md"),)
    found = read("frob the {x} now", f"{{x: {kind}}}", f"frob the {text} now", prior)
    assert found == (None if value is None else {"x": value})


@pytest.mark.parametrize(
    ("task", "fits"),
    [
        ("Tom has a dog and Tom walks", True),
        ("Tom has a dog and Ann walks", False),
        ("Tom has a Tom and Tom walks", False),
        ("Tom has a walk and Tom walks", False),
    ],
)
def test_a_label_has_its_word_for_itself(task: str, fits: bool) -> None:
    found = read("{who} has a {what} and {who} walks", "{who: proper name, what: noun}", task)
    assert bool(found) == fits


def test_a_slot_that_stands_twice_reads_the_same_both_times() -> None:
    assert read("from {n} to {n}", "{n: exact number}", "from 3 to three") == {"n": "3"}
    assert read("from {n} to {n}", "{n: exact number}", "from 3 to 4") is None


@pytest.mark.parametrize(("status", "used"), [("off", False), ("no", False), ("active", True), ("on", True)])
def test_off_is_off_although_yaml_reads_it_as_false(status: str, used: bool) -> None:
    folder = shelf("frob {n}", "{n: exact number}", status)
    assert bool(folder.procedures) == used


def test_learned_ones_are_named_by_their_own_folder() -> None:
    (procedure,) = shelf("frob {n}", "{n: exact number}").procedures
    assert procedure.file == "state/memory/methods/probe.md"


@pytest.mark.parametrize(
    ("task", "holes", "wording"),
    [
        ("Copy a.md to b.md.", ["a.md", "b.md"], "copy {0} to {1}"),
        ("Take 5 dollars, now", ["5 dollars"], "take {0} , now"),
        ('Write "a b" there', ['"a b"'], "write {0} there"),
        ('Write "a b" there', [], None),
        ("Take (5) now", ["5"], None),
        ("a 5-pound bag", ["5"], None),
        ("one [of] these", [], None),
        ("first\nsecond", [], None),
    ],
)
def test_a_task_as_a_phrasing(task: str, holes: list[str], wording: str | None) -> None:
    spans = [(task.index(h), task.index(h) + len(h), f"{{{at}}}") for at, h in enumerate(holes)]
    assert Trial([shipped_system()]).wording(task, 0, len(task), spans) == wording
