"""Which tools the index of a plan lists: by the words of the task, within a budget; and refreshing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lanes import seconds

from bench.toolbox import write_tools
from kernel.tools.tool import BUILTINS
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.choosing import words
from runtime.text.inflection import regular_stem as stem


def operation(folder: Path, name: str, description: str, args: str = "{}", rank: int = 100) -> None:
    path = folder / "operations" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"name: {name}\ndescription: {description!r}\nargs: {args}\nrank: {rank}\nrun: 'command: x'"
    path.write_text(f"---\n{head}\n---\n", "utf-8")


def shown(catalogue: Catalogue, task: str) -> list[str]:
    return [tool.name for tool in catalogue.ranked(task)]


def test_builtins_are_listed_first_and_others_by_relevance() -> None:
    catalogue = Catalogue([shipped_system()])
    assert tuple(shown(catalogue, "what is the average of the column price?")[:3]) == BUILTINS
    assert "date" in shown(catalogue, "which date is it in three weeks?")[:5]


@pytest.mark.parametrize(
    ("task", "best"),
    [
        ("a room for our appointments", "reserve-room"),
        ("delete the old bookings", "cancel-booking"),
        ("send them an e-mail", "mail-out"),
        ("the photo is too large", "shrink-picture"),
        ("transcribing the interviews", "make-transcript"),
        ("Übersetze den Brief", "uebersetzer"),
        ("翻译 这封信", "fanyi"),
    ],
)
def test_inflections_and_synonyms_match(tmp_path: Path, task: str, best: str) -> None:
    operation(tmp_path, "reserve-room", "get a meeting room")
    operation(tmp_path, "cancel-booking", "remove what was booked")
    operation(tmp_path, "mail-out", "deliver mail to somebody")
    operation(tmp_path, "shrink-picture", "scale a picture")
    operation(tmp_path, "make-transcript", "speech turned into text")
    operation(tmp_path, "uebersetzer", "übersetzt einen Brief in eine andere Sprache")
    operation(tmp_path, "fanyi", "翻译 文字")
    for n in range(60):
        operation(tmp_path, f"other-{n}", f"does thing {n}")
    assert shown(Catalogue([tmp_path]), task)[0] == best


def test_rare_words_and_names_weigh_more(tmp_path: Path) -> None:
    for n in range(20):
        operation(tmp_path, f"a-{n}", "changes a file of text")
    operation(tmp_path, "z-beekeeping", "keeps hives")
    operation(tmp_path, "z-other", "changes a file of text about beekeeping")
    assert shown(Catalogue([tmp_path]), "change the file on beekeeping")[:2] == [
        "z-beekeeping",
        "z-other",
    ]


def test_ties_are_ordered_by_rank_and_name(tmp_path: Path) -> None:
    for name, rank in (("c", 5), ("b", 100), ("a", 100)):
        operation(tmp_path, f"{name}-tool", "sorts lines", rank=rank)
    catalogue = Catalogue([tmp_path])
    for _ in range(3):
        assert shown(catalogue, "sort the lines") == ["c-tool", "a-tool", "b-tool"]
    assert shown(catalogue, "") == ["c-tool", "a-tool", "b-tool"]


def test_words_are_stemmed() -> None:
    assert words("Which of the 3 bookings?") == [stem("book")]
    assert stem("booked") == stem("bookings") == stem("book")
    assert stem("reservation") == stem("reserve")
    assert stem("planning") == stem("plan")
    assert stem("as") == "as" and stem("") == ""


# ---- refreshing ------------------------------------------------------------------------------------------


def walk(*folders: Path) -> None:
    """List folders and stat each file: the lower bound of a refresh without a cache."""
    for folder in folders:
        for place, _, files in os.walk(folder):
            for name in files:
                (Path(place) / name).stat()


def skills(folder: Path, count: int) -> None:
    for n in range(count):
        place = folder / f"skill-{n}"
        (place / "scripts").mkdir(parents=True)
        (place / "SKILL.md").write_text(
            f"---\nname: skill-{n}\ndescription: does thing {n}\n---\nDo.\n", "utf-8"
        )
        (place / "scripts" / "run.sh").write_text("true\n", "utf-8")


@pytest.mark.night
def test_refresh_of_unchanged_files_is_faster_than_a_walk(tmp_path: Path) -> None:
    write_tools(tmp_path / "system", 500)
    skills(tmp_path / "skills", 500)
    skills(tmp_path / "system" / "tools", 100)
    few = Catalogue([tmp_path / "system"])
    many = Catalogue([tmp_path / "system"], skills=[tmp_path / "skills"])
    assert not few.refresh() and not many.refresh()
    assert seconds(few.refresh, 15) < seconds(lambda: walk(tmp_path / "system"), 15)
    both = (tmp_path / "system", tmp_path / "skills")
    assert seconds(many.refresh, 15) < seconds(lambda: walk(*both), 15)


def test_refresh_sees_changes_at_once(tmp_path: Path) -> None:
    operation(tmp_path, "one", "x")
    for each in (*tmp_path.rglob("*"), tmp_path):
        os.utime(each, (1_000_000_000, 1_000_000_000))  # what has just changed is read again each time
    catalogue = Catalogue([tmp_path])
    assert not catalogue.refresh() and not catalogue.refresh()
    operation(tmp_path, "two", "y")
    assert catalogue.refresh() and "two" in catalogue.tools
    operation(tmp_path, "two", "changed")
    assert catalogue.refresh() and catalogue.tools["two"].description == "changed"
    (tmp_path / "operations" / "one.md").unlink()
    assert catalogue.refresh() and "one" not in catalogue.tools
    (tmp_path / "tools" / "three").mkdir(parents=True)
    (tmp_path / "tools" / "three" / "pattern.md").write_text(
        "---\nname: three\ndescription: z\n---\n", "utf-8"
    )
    assert catalogue.refresh() and "three" in catalogue.tools
