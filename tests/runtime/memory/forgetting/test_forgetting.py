"""Forgetting removes every byte of what a person names, and nothing else."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest
from playing import ACCEPT, plan

from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.memory.dream.archive import BeforeImage
from runtime.memory.episodes.episodes import Forgotten
from runtime.memory.episodes.experience import Experience
from runtime.memory.facts import graph
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Edge, Goal, Memory, Observation
from runtime.memory.forgetting.forgetting import Forgetting, ForgettingResult
from runtime.memory.forgetting.request import Request
from runtime.memory.store import Shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.trees import NeuronTree

LIST = {"tool": "list", "args": {}}


def answers(ask):
    return (
        {**ACCEPT, "output": "{{ steps[1].result }}"}
        if ask.phase == "check"
        else plan(LIST, success=[{"step": 1, "has": "^"}])
    )


def place(tmp_path: Path, **settings: object) -> Fractal:
    return Fractal(tmp_path, settings={"embedder": "lexical", **settings})


def mind_of(fractal: Fractal) -> Mind:
    return Mind.of(fractal.brain)


def forget(fractal: Fractal, words: str = "", *, documents: bool = False, **wanted: str) -> ForgettingResult:
    forgetting = Forgetting(fractal.brain, fractal.workspace.state)
    return forgetting.do(Request(words, **wanted), with_documents=documents)


def places_of(word: str, state: Path) -> list[str]:
    """Every file below that contains a word in a form that a person could find, in any case."""
    found: list[str] = []
    for path in sorted(each for each in state.rglob("*") if each.is_file()):
        raw = path.read_bytes()
        raw += gzip.decompress(raw) if path.suffix == ".gz" and not path.name.endswith("tar.gz") else b""
        if word.lower().encode() in raw.lower():
            found.append(str(path.relative_to(state)))
    return found


def texts(shelf: Shelf, kind: type) -> list[str]:
    return sorted(each.text for each in shelf.scan(kind))


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_forgotten_words_are_in_no_byte_of_memory(tmp_path, store):
    fractal = place(tmp_path, store=store)
    mind, memory = mind_of(fractal), fractal.memory.folder
    for n in range(40):
        mind.remember(f"the shop number {n} opens at {n % 12} o'clock")
    mind.remember("Zebedee owes me 90 crowns")
    mind.observe("Zebedee called about the crowns", thread="phone")
    mind.set_goal("get my crowns from Zebedee")
    fractal.brain.shelf.put(
        BeforeImage(id="d/1", dream="d", kind_of="memory", name="x" * 24, body='{"text": "Zebedee owed 80"}'),
        BeforeImage(id="d/2", dream="d", name="methods/z.md", body="ask Zebedee for it"),
        BeforeImage(id="d/3", dream="d", kind_of="memory", name="y" * 24, body='{"text": "no"}'),
    )
    (memory / "archive").mkdir(exist_ok=True)
    (memory / "archive" / "of-an-earlier-version.jsonl").write_text('{"body": "Zebedee"}\n')
    (memory / "patterns").mkdir(exist_ok=True)
    (memory / "patterns" / "zeb.md").write_text("# Ask Zebedee first\n")
    (memory / "brain.sqlite3.quarantine").write_text('{"body": "Zebedee"}\n')
    done = forget(fractal, "zebedee")
    assert places_of("zebedee", fractal.workspace.state) == []
    assert done.preview.counts["memory"] == 1 and done.preview.archived == 2 and not done.hindered
    assert fractal.brain.shelf.count(Memory) == 40
    assert fractal.brain.shelf.check() == []
    assert [image.id for image in fractal.brain.shelf.scan(BeforeImage)] == ["d/3"]


def test_no_vector_and_no_row_that_hung_on_it_is_left(tmp_path):
    fractal = place(tmp_path)
    mind, shelf = mind_of(fractal), fractal.brain.shelf
    gone = mind.remember("Zebedee owes me 90 crowns")
    kept = mind.remember("the shop opens at nine")
    other = mind.remember("the bakery opens at six")
    mind.link(gone.id, kept.id, "related", text="both are about money")
    mind.link(kept.id, other.id, "related")
    forget(fractal, "Zebedee")
    edges = list(shelf.scan(Edge))
    assert edges and not any(gone.id in (each.source, each.target) for each in edges)
    assert {each.id for each in mind.edges_of([kept.id])[kept.id]} == {each.id for each in edges}
    base = sqlite3.connect(fractal.memory.folder / "brain.sqlite3")
    assert base.execute("SELECT count(*) FROM vectors WHERE vector IS NULL").fetchone() == (0,)
    held = {row[0] for row in base.execute("SELECT id FROM records")}
    assert not any(gone.id.encode() in id for id in held)
    assert b"90 crowns" not in (fractal.memory.folder / "brain.sqlite3").read_bytes()


def test_a_memory_with_other_evidence_is_worded_anew_from_the_rest(tmp_path):
    fractal = place(tmp_path)
    mind, shelf = mind_of(fractal), fractal.brain.shelf
    first = mind.remember("the office is in Berlin")
    said = mind.observe("our office is in Berlin, on the second floor above Quentin", thread="t", turn=1)
    merged = graph.merge(shelf, [said], first, mind.now)
    shelf.put(merged.model_copy(update={"text": "the office is in Berlin above Quentin"}))
    done = forget(fractal, "quentin")
    assert done.preview.reworded == {
        first.id: ("the office is in Berlin above Quentin", "the office is in Berlin")
    }
    left = shelf.get(Memory, first.id)
    assert left is not None and left.text == "the office is in Berlin" and len(left.evidence) == 1
    assert left.vectors and texts(shelf, Observation) == ["the office is in Berlin"]
    assert places_of("quentin", fractal.workspace.state) == []


def test_a_memory_goes_with_its_evidence_by_its_id_and_so_does_not_come_back(tmp_path):
    fractal = place(tmp_path)
    mind, shelf = mind_of(fractal), fractal.brain.shelf
    gone = mind.remember("the office is in Berlin")
    mind.remember("the cat is called Tom")
    forget(fractal, id=gone.id[:10])
    assert texts(shelf, Memory) == texts(shelf, Observation) == ["the cat is called Tom"]


def test_an_abstraction_goes_with_what_it_was_drawn_from(tmp_path):
    fractal = place(tmp_path)
    mind, shelf = mind_of(fractal), fractal.brain.shelf
    drawn, other = mind.remember("Zebedee pays late"), mind.remember("the bakery opens at six")
    shelf.put(Memory(id="a" * 24, text="people who pay late", held="abstraction"))
    shelf.put(Memory(id="b" * 24, text="shops open early", held="abstraction"))
    mind.link("a" * 24, drawn.id, "derived")
    mind.link("b" * 24, other.id, "derived")
    forget(fractal, "zebedee")
    assert texts(shelf, Memory) == ["shops open early", "the bakery opens at six"]


def test_what_was_superseded_by_something_forgotten_holds_again(tmp_path):
    fractal = place(tmp_path)
    mind, shelf = mind_of(fractal), fractal.brain.shelf
    old, new = mind.remember("the office is in Berlin"), mind.remember("the cat is called Tom")
    shelf.put(old.model_copy(update={"superseded": new.id, "until": "2026-01-01T00:00:00Z"}))
    forget(fractal, id=new.id)
    left = shelf.get(Memory, old.id)
    assert left is not None and (left.superseded, left.until) == ("", "")


def test_a_run_is_forgotten_with_what_it_taught_and_its_documents_stay(play):
    played = play(
        answers, "Remember that my parrot is Zebedee. List the files", settings={"embedder": "lexical"}
    )
    fractal, run = played.fractal, played.result.run
    shelf = fractal.brain.shelf
    fractal.brain.memory  # noqa: B018  # its tree gets its neurons
    assert shelf.count(NeuronTree) == 1 and shelf.count(Decision) == 1
    done = forget(fractal, run=run)
    for kind in (NeuronTree, Decision, Experience, Observation, Memory):
        assert shelf.count(kind) == 0
    state = fractal.workspace.state
    assert done.left == [run] and {each.split("/")[0] for each in places_of("zebedee", state)} == {"runs"}
    fractal.brain.episodes.rebuild()
    assert shelf.count(Experience) == shelf.count(Observation) == 0


def test_with_documents_nothing_of_it_is_left_anywhere(play):
    played = play(
        answers, "Remember that my parrot is Zebedee. List the files", settings={"embedder": "lexical"}
    )
    other = play(answers, "List the files", settings={"embedder": "lexical", "recall": False})
    state = played.fractal.workspace.state
    done = forget(other.fractal, "zebedee", documents=True)
    assert done.removed == [played.result.run] and places_of("zebedee", state) == []
    assert other.result.path.exists()


def test_a_fact_goes_and_what_its_run_says_of_it_and_not_what_others_said(play):
    first = play(
        answers, "Remember that my parrot is Zebedee. List the files", settings={"embedder": "lexical"}
    )
    second = play(
        answers, "Remember that my parrot is Zebedee. Look around", settings={"embedder": "lexical"}
    )
    shelf = second.fractal.brain.shelf
    fact = next(each for each in shelf.scan(Observation, {"thread": first.result.run, "said": "fact"}))
    forget(second.fractal, id=fact.id)
    assert {each.thread for each in shelf.scan(Observation)} == {second.result.run}
    assert {each.run for each in shelf.scan(Experience)} == {second.result.run}
    second.fractal.brain.episodes.rebuild()
    assert {each.thread for each in shelf.scan(Observation, {"said": "fact"})} == {second.result.run}


def test_all_before_a_date_goes_and_a_memory_stands_on_what_is_younger(tmp_path):
    fractal = place(tmp_path)
    shelf = fractal.brain.shelf
    old = Mind.of(fractal.brain, clock=lambda: "2026-01-01T00:00:00Z")
    new = Mind.of(fractal.brain, clock=lambda: "2026-03-01T00:00:00Z")
    memory = old.remember("the office is in Berlin")
    old.remember("the cat is called Tom")
    old.set_goal("learn Danish")
    said = new.observe("the office is in Berlin", thread="later")
    graph.merge(shelf, [said], memory, new.now)
    forget(fractal, before="2026-02-01T00:00:00Z")
    (left,) = shelf.scan(Memory)
    assert left.id == memory.id and left.since.startswith("2026-03") and shelf.count(Goal) == 0


def test_a_look_changes_nothing_and_tells_what_would_go(tmp_path):
    fractal = place(tmp_path)
    mind_of(fractal).remember("Zebedee owes me 90 crowns")
    before = (fractal.memory.folder / "brain.sqlite3").read_bytes()
    preview = Forgetting(fractal.brain, fractal.workspace.state).look(Request("crowns zebedee"))
    assert preview.counts == {"observation": 1, "memory": 1} and not preview.nothing
    assert (fractal.memory.folder / "brain.sqlite3").read_bytes() == before
    assert Forgetting(fractal.brain, fractal.workspace.state).look(Request("crown prince")).nothing


def test_words_mean_all_of_them_in_one_place_and_whole_words(tmp_path):
    fractal = place(tmp_path)
    mind = mind_of(fractal)
    for text in (
        "Ann has a cat",
        "Anna has a dog",
        "the annual cat show",
        "Ann's dog and my cat are friends",
    ):
        mind.remember(text)
    forget(fractal, "ann cat")
    assert texts(fractal.brain.shelf, Memory) == ["Anna has a dog", "the annual cat show"]
    forget(fractal, '"has a dog"')
    assert texts(fractal.brain.shelf, Memory) == ["the annual cat show"]


@pytest.mark.parametrize("wanted", [{}, {"words": "a", "id": "abcd"}, {"words": "!?"}, {"id": "ab"}])
def test_what_is_to_be_forgotten_must_be_said(wanted):
    with pytest.raises(UsageError):
        Request(**wanted)


def test_forgetting_twice_and_forgetting_nothing_is_no_fault(tmp_path):
    fractal = place(tmp_path)
    mind_of(fractal).remember("Zebedee owes me 90 crowns")
    assert not forget(fractal, "zebedee").preview.nothing
    assert forget(fractal, "zebedee").preview.nothing
    assert list(fractal.brain.shelf.scan(Forgotten)) == []


def test_a_method_and_a_pattern_made_of_a_forgotten_run_go(play):
    played = play(answers, "List the files", settings={"embedder": "lexical"})
    memory, run = played.fractal.memory.folder, played.result.run
    for name, text in {
        "patterns/of-it.md": f"# A\n\nfrom [it](../../runs/{run}/system-{run}.md)\n",
        "patterns/of-both.md": f"# B\n\nfrom system-{run}.md and system-zzzzzz.md\n",
        "patterns/.known": "of-it 1234\nof-both 5678\n",
    }.items():
        (memory / name).parent.mkdir(exist_ok=True)
        (memory / name).write_text(text)
    forget(played.fractal, run=run)
    assert sorted(each.name for each in (memory / "patterns").iterdir()) == [".known", "of-both.md"]
    assert (memory / "patterns" / ".known").read_text() == "of-both 5678\n"


def test_forgetting_waits_for_no_dream(tmp_path):
    fractal = place(tmp_path)
    mind_of(fractal).remember("Zebedee owes me 90 crowns")
    fractal.memory.dreamer.hold("a dream")
    try:
        with pytest.raises(UsageError, match="a dream is already running"):
            forget(place(tmp_path), "zebedee")
    finally:
        fractal.memory.dreamer.release()


def test_each_space_forgets_by_itself_and_names_the_others(tmp_path):
    here, there = place(tmp_path), place(tmp_path, space="garden")
    for fractal in (here, there):
        mind_of(fractal).remember("Zebedee owes me 90 crowns")
    done = forget(here, "zebedee")
    assert done.preview.spaces == ["garden"] and here.brain.shelf.count(Memory) == 0
    assert texts(there.brain.shelf, Memory) == ["Zebedee owes me 90 crowns"]
    assert forget(there, "zebedee").preview.spaces == []
    assert places_of("zebedee", here.workspace.state) == []
