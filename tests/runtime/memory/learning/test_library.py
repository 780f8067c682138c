from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernel.errors import FractalError, UsageError
from runtime.memory.learning.library import Library
from runtime.memory.learning.patterns import Pattern, PatternError, parse, read

SYSTEM = Path(__file__).parents[4] / "system"
READ_FIRST = Pattern(
    name="read-before-edit",
    guidance="Before `edit`, read the same file with `read`.",
    avoid="`edit` on a file that was not read before.",
    why="9 of 10 that did succeeded, 1 of 8 that did not.",
    types=("edit", "code"),
    confidence=0.8,
    success_rate=0.9,
    samples=18,
    rule="before-same edit read",
    created="2026-11-21T10:00:00.000Z",
    sources=("runs/abc123/system-abc123.md", "runs/abd456/system-abd456.md"),
)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "state" / "memory" / "patterns", fsync=False)


def file_of(library: Library, name: str = "read-before-edit") -> Path:
    return library.folder / f"{name}.md"


# ---- the file --------------------------------------------------------------------------------------------


def test_what_is_added_is_read_back_as_it_was(library: Library) -> None:
    library.add(READ_FIRST)
    (found,) = Library(library.folder).all()
    assert found == Pattern(**{**vars(READ_FIRST), "title": "Read before edit"})
    assert not found.edited


def test_a_file_reads_as_a_person_would_write_it(library: Library) -> None:
    library.add(READ_FIRST)
    assert file_of(library).read_text() == (
        "---\ntask types: [edit, code]\nconfidence: 0.80\nsuccess rate: 0.90\nsamples: 18\ntokens: 44\n"
        "helpful: 0\nharmful: 0\nscope: all\nstatus: active\norigin: contrast\nrule: before-same edit read\n"
        'created: "2026-11-21T10:00:00.000Z"\nwritten: "16e328d65f16552f"\n---\n'
        "# Read before edit\n\nBefore `edit`, read the same file with `read`.\n\n"
        "## Avoid\n\n`edit` on a file that was not read before.\n\n"
        "## Why\n\n9 of 10 that did succeeded, 1 of 8 that did not.\n\n"
        "## From\n\n- [system-abc123](../../runs/abc123/system-abc123.md)\n"
        "- [system-abd456](../../runs/abd456/system-abd456.md)\n"
    )


def test_the_least_that_a_person_has_to_write(library: Library) -> None:
    library.folder.mkdir(parents=True)
    file_of(library, "be-short").write_text("---\n---\n# Be short\n\nAnswer in one line.\n")
    (found,) = library.patterns()
    assert (found.guidance, found.types, found.status) == ("Answer in one line.", ("general",), "active")


@pytest.mark.parametrize(
    "text, line, reason",
    [
        ("", 1, "no frontmatter"),
        ("---\nscope: everybody\n---\n# A\n\nb\n", 2, "scope: 'everybody' is not one of all, space, agent"),
        ("---\nstatus: active\nconfidence: high\n---\n# A\n\nb\n", 3, "confidence: 'high' is not a number"),
        ("---\nconfidence: nan\n---\n# A\n\nb\n", 2, "is not a number from 0 to 1"),
        ("---\nsamples: -1\n---\n# A\n\nb\n", 2, "samples: '-1' is not a whole number"),
        ("---\na: [1\n---\n# A\n\nb\n", 3, "not YAML"),
        ("---\nstatus: active\n---\njust text\n", 4, "no heading"),
        ("---\nstatus: active\n---\n# A\n\n## Avoid\n\nc\n", 4, "nothing under the heading"),
        ("---\nstatus: active\n---\n# A\n\nread\u202e it\n", 6, "U+202E"),
        ("---\nstatus: active\n---\n# A\n\n" + "word " * 300, 4, "tokens of guidance; 300 at most"),
        ("---\nscope: agent\n---\n# A\n\nb\n", 2, "the key `agent:` is missing"),
    ],
)
def test_a_bad_file_is_reported_with_its_line_and_the_others_work(
    library: Library, text: str, line: int, reason: str
) -> None:
    library.add(READ_FIRST)
    bad = file_of(library, "bad")
    bad.write_text(text)
    assert [each.name for each in library.all()] == ["read-before-edit"]
    message = str(library.faults[bad])
    assert message.startswith(f"{bad}:{line}: ") and reason in message


@pytest.mark.parametrize(
    "raw, reason",
    [(b"---\n---\n# A\n\n\xff\xfe\n", "5: not UTF-8"), (b"x" * 10_000_000, "10,000,000 bytes are too many")],
)
def test_a_file_that_is_not_text_is_reported_too(library: Library, raw: bytes, reason: str) -> None:
    library.folder.mkdir(parents=True)
    file_of(library).write_bytes(raw)
    assert library.all() == []
    assert reason in str(library.faults[file_of(library)])


def test_a_mended_file_is_read_again(library: Library) -> None:
    library.folder.mkdir(parents=True)
    file_of(library).write_text("nothing")
    assert not library.all() and library.faults
    file_of(library).write_text("---\n---\n# A\n\nNow it is one.\n")
    assert [each.guidance for each in library.all()] == ["Now it is one."]
    assert not library.faults


# ---- small edits -----------------------------------------------------------------------------------------


def test_an_update_changes_the_lines_concerned_and_no_other(library: Library) -> None:
    library.add(READ_FIRST)
    path = file_of(library)
    text = path.read_text().replace("samples: 18\n", "samples: 18\nmine: I like this one\n")
    path.write_text(text + "\n## Notes\n\nSeen in the shop's code too.\n")
    before = path.read_text().splitlines()
    library.update("read-before-edit", helpful=3, confidence=0.9)
    after = path.read_text().splitlines()
    assert set(before) - set(after) == {"helpful: 0", "confidence: 0.80"}
    assert set(after) - set(before) == {"helpful: 3", "confidence: 0.90"}
    assert len(after) == len(before)


def test_words_that_a_person_has_corrected_are_left_alone(library: Library) -> None:
    library.add(READ_FIRST)
    path = file_of(library)
    path.write_text(path.read_text().replace("read the same file with", "always read the file with"))
    assert read(path).edited
    library.update("read-before-edit", guidance="Something else.", samples=40)
    assert "always read the file" in read(path).guidance
    assert read(path).samples == 40
    library.update("read-before-edit", person=True, guidance="Something else.")
    assert read(path).guidance == "Something else."


def test_words_that_nobody_has_corrected_can_be_updated(library: Library) -> None:
    library.add(READ_FIRST)
    library.update("read-before-edit", guidance="Read, then edit.", avoid="", sources=("runs/x/system-x.md",))
    found = read(file_of(library))
    assert (found.guidance, found.avoid, found.sources) == ("Read, then edit.", "", ("runs/x/system-x.md",))
    assert not found.edited
    assert found.why == READ_FIRST.why


def test_an_update_that_could_not_be_read_back_is_refused_and_nothing_is_lost(library: Library) -> None:
    library.add(READ_FIRST)
    before = file_of(library).read_text()
    with pytest.raises(PatternError, match="tokens of guidance"):
        library.update("read-before-edit", guidance="word " * 400)
    assert file_of(library).read_text() == before


def test_what_a_person_deletes_is_not_learned_again(library: Library) -> None:
    library.add(READ_FIRST)
    file_of(library).unlink()
    assert library.add(READ_FIRST) is None
    assert library.add(Pattern(name="other-name", guidance="The same.", rule=READ_FIRST.rule)) is None
    assert library.add(Pattern(name="look-first", guidance="Look first.", rule="first list"))


def test_what_learning_itself_takes_away_may_come_again(library: Library) -> None:
    library.add(READ_FIRST)
    library.delete("read-before-edit")
    assert library.add(READ_FIRST)
    library.delete("read-before-edit", person=True)
    assert library.add(READ_FIRST) is None


def test_two_of_one_name_stand_side_by_side(library: Library) -> None:
    library.add(READ_FIRST)
    second = library.add(Pattern(name="read-before-edit", guidance="Read it twice.", rule="first read"))
    assert second and second.name == "read-before-edit-2"
    assert len(library.all()) == 2


def test_a_name_leads_nowhere_else(library: Library) -> None:
    library.add(READ_FIRST)
    with pytest.raises(UsageError, match="there is no pattern"):
        library.update("../patterns/read-before-edit", samples=1)
    with pytest.raises(FractalError, match="rename it"):
        parse("---\n---\n# A\n\nb\n", library.folder / "No Name.md")


def test_several_that_count_at_once_lose_no_count(library: Library) -> None:
    library.add(READ_FIRST)

    def count() -> None:
        mine = Library(library.folder, fsync=False)
        for _ in range(10):
            mine.used("read-before-edit", "2026-11-21T11:00:00.000Z", helped=True)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert read(file_of(library)).helpful == 40


def test_two_that_learn_the_same_at_once_have_one_file(library: Library) -> None:
    others = [Library(library.folder, fsync=False) for _ in range(6)]
    threads = [threading.Thread(target=each.add, args=(READ_FIRST,)) for each in others]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each.name for each in library.all()] == ["read-before-edit"]


# ---- what is shown ---------------------------------------------------------------------------------------


def test_what_is_shown_fits_its_tokens_and_is_of_the_task_type(library: Library) -> None:
    from kernel.asking.responder import estimate_tokens

    for number in range(30):
        library.add(
            Pattern(
                name=f"p-{number}",
                guidance=f"Advice number {number} of some length, for tasks that edit files.",
                types=("edit",) if number % 2 else ("data",),
                confidence=number / 30,
            )
        )
    advice = _lines(library.relevant(["edit"], 200))
    assert 100 < estimate_tokens(advice) <= 200
    assert advice.splitlines()[0] == (
        "- Advice number 29 of some length, for tasks that edit files. (patterns/p-29.md)"
    )
    assert all(int(line.split("number ")[1].split()[0]) % 2 for line in advice.splitlines())
    assert estimate_tokens(_lines(library.relevant(["edit"]))) <= 500


def _lines(patterns: list[Pattern]) -> str:
    return "\n".join(each.shown() for each in patterns)


def test_the_more_specific_wins_a_conflict(library: Library) -> None:
    run = Pattern(
        name="test", guidance="Run the tests after an edit.", rule="after edit bash", confidence=0.9
    )
    library.add(run)
    against = {**vars(run), "name": "no-test", "guidance": "Leave the tests to others.", "confidence": 0.6}
    library.add(Pattern(**{**against, "rule": "not after edit bash", "scope": "agent", "agent": "writer"}))
    assert [each.name for each in library.relevant(["edit"])] == ["test"]
    writer = Library(library.folder, agent="writer")
    assert [each.name for each in writer.relevant(["edit"])] == ["no-test"]


@pytest.mark.parametrize(
    "guidance, avoid, clash",
    [
        ("Never run the tests after an edit.", "", True),
        ("Ask a person.", "Run the tests after an edit.", True),
        ("Run the tests after an edit with bash.", "", False),
        ("Never read a file twice.", "", False),
    ],
)
def test_advice_in_words_is_a_conflict_where_one_says_not_to(guidance: str, avoid: str, clash: bool) -> None:
    from runtime.memory.learning.library import advice_of, contradict

    one = Pattern(name="test", guidance="Run the tests after an edit.")
    other = Pattern(name="other", guidance=guidance, avoid=avoid)
    assert contradict(one, other, advice_of((SYSTEM,))) is clash


def test_a_named_space_has_its_own_and_those_for_all(tmp_path: Path) -> None:
    main = Library(tmp_path / "state/memory/patterns", fsync=False)
    main.add(READ_FIRST)
    main.add(Pattern(name="ours-alone", guidance="In this space.", scope="space"))
    shop = Library(
        tmp_path / "state/spaces/shop/memory/patterns", above=[main.folder], state=tmp_path / "state"
    )
    shop.add(
        Pattern(name="prices", guidance="Prices have two decimals.", scope="space", sources=("runs/a/b.md",))
    )
    assert [each.name for each in shop.patterns()] == ["prices", "read-before-edit"]
    assert "(../../../../runs/a/b.md)" in file_of(shop, "prices").read_text()


def test_what_is_switched_off_is_not_shown(library: Library) -> None:
    library.add(READ_FIRST)
    path = file_of(library)
    path.write_text(path.read_text().replace("status: active", "status: off"))
    assert library.relevant(["edit"]) == []
    assert library.get("read-before-edit")
