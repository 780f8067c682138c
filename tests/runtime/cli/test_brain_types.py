"""`fractal brain substrates` lists the problem types that a workspace learned."""

from __future__ import annotations

import json

from command_line import Command

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import open_shelf
from runtime.memory.tasks.types import Lesson, Recognition, Types


def test_types_are_listed_the_most_used_first_and_archived_ones_when_asked(fractal: Command) -> None:
    shelf = open_shelf("sqlite", fractal.folder / ".fractal" / "state" / "memory", fsync=False)
    types = Types(shelf, Lexical())
    types.learn_all([Lesson("count the lines of a.md", type="old")], "2025-01-01")
    types.learn_all([Lesson("convert 3 km to miles", type="miles")], "2025-03-01")
    id = types.learn("who wrote \x1b[31mthese letters", at="2025-03-01")
    types.used(Recognition("recognized", id, 0.9, 0.1), "", at="2025-03-02")
    old = types.get("old")
    assert old
    shelf.put(old.model_copy(update={"origin": "archived"}))
    shelf.close()
    ran = fractal("brain", "substrates", "--json")
    listed = json.loads(ran.out)
    assert [(each["id"], each["origin"], each["members"]) for each in listed] == [
        (id, "emergent", 1),
        ("miles", "explicit", 1),
    ]
    assert listed[0]["used"] == "2025-03-02" and listed[0]["temperature"] == 0.95
    shown = fractal("brain", "substrates").out
    assert "miles" in shown and "letters" in shown and "\x1b" not in shown and "archived" not in shown
    assert id not in shown and "convert 3 km to miles" in shown
    assert "archived" in fractal("brain", "substrates", "--all").out


def test_with_nothing_learned_it_says_so(fractal: Command) -> None:
    ran = fractal("brain", "substrates")
    assert (ran.exit, ran.out) == (0, "") and "here yet" in ran.err
    assert json.loads(fractal("brain", "substrates", "--json").out) == []
