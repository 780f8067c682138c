"""`fractal brain methods`: what was learned is listed, shown and switched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CONFIG, Command

from kernel.errors import Exit
from runtime.api.fractal import shipped_system
from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import open_shelf
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.methods import Methods
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.words import words_of
from runtime.reflexes.trial import Trial


def memory(fractal: Command) -> Path:
    return fractal.folder / ".fractal" / "state" / "memory"


@pytest.fixture
def learned(fractal: Command, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a method that five solved tasks made, for the user who runs the command."""
    monkeypatch.setenv("XDG_CONFIG_HOME", CONFIG)
    words = words_of((shipped_system(),))
    shelf = open_shelf("sqlite", memory(fractal))
    trees = ProceduralMemory(shelf, Lexical(), words)
    known = Methods(shelf, trees.embedder, words, memory(fractal) / "methods", Trial([shipped_system()]))
    made = None
    for n in range(5):
        step = {"tool": "count", "args": {"what": "lines", "path": f"{n}a.md"}, "needs": []}
        made = known.consider(trees.learn(Exemplar(task=f"tally up {n}a.md", steps=(step,))))
    shelf.close()
    assert made
    return made.id


def test_an_empty_list_of_methods_is_reported_and_creates_nothing(fractal: Command) -> None:
    ran = fractal("brain", "methods")
    assert ran.exit == 0
    assert "no methods learned yet" in ran.out
    assert json.loads(fractal("brain", "methods", "--json").out) == []
    assert fractal("brain", "methods", "off", "x").exit == Exit.USAGE
    assert not memory(fractal).exists()


def test_methods_are_listed(fractal: Command, learned: str) -> None:
    ran = fractal("brain", "methods")
    assert ran.exit == 0
    assert f"{learned}  steps  hippocampus  0" in ran.out
    (method,) = json.loads(fractal("brain", "methods", "--json").out)
    assert (method["name"], method["kind"], method["stage"], method["status"]) == (
        learned,
        "steps",
        "hippocampus",
        "active",
    )
    assert Path(method["file"]).is_file()


def test_one_is_shown_with_its_file(fractal: Command, learned: str) -> None:
    assert "tally up {path}" in fractal("brain", "methods", "show", learned).out
    method = json.loads(fractal("brain", "methods", "show", learned, "--json").out)
    assert len(method["trees"]) == 5
    assert method["text"].startswith("---\nname: ")
    ran = fractal("brain", "methods", "show", "nobody")
    assert ran.exit == Exit.USAGE
    assert "there is no method nobody" in ran.err


def test_one_is_switched_off_and_on(fractal: Command, learned: str) -> None:
    assert "off" in fractal("brain", "methods", "off", learned).out
    path = memory(fractal) / "methods" / f"{learned}.md"
    assert "status: off\n" in path.read_text("utf-8")
    assert json.loads(fractal("brain", "methods", "on", learned, "--json").out)["status"] == "active"
    path.unlink()
    assert "deleted" in fractal("brain", "methods").out
    assert fractal("brain", "methods", "on", learned).exit == 0
    assert path.is_file()


def test_a_file_that_cannot_be_read_is_reported(fractal: Command, learned: str) -> None:
    path = memory(fractal) / "methods" / f"{learned}.md"
    path.write_text(path.read_text("utf-8").replace("exact path", "exact pth"), "utf-8")
    out = fractal("brain", "methods").out
    assert "faulty, edited" in out
    assert "'exact pth' is no kind of slot" in out
