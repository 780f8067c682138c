"""What memory gives a loop to see stands in §1 by part, once, and is nobody's gift."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from playing import ACCEPT, Played, plan

from kernel.asking.prompt import found_by_itself
from kernel.asking.responder import Ask, Ladder
from kernel.document.model import Document
from runtime.api.fractal import Fractal
from runtime.memory.run_memory import Remembering
from runtime.models.scripted import Scripted


class Told(Remembering):
    """A memory that has the same for every task."""

    times = 0

    def known(self, document: Document) -> Sequence[tuple[str, str]]:
        self.times += 1
        return (("files", "- a.txt (run x)"), ("patterns", "- ask AKIAIOSFODNN7EXAMPLE (patterns/p.md)"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("folder", True),
        ("AGENTS.md", True),
        ("memory", True),
        ("memory: files", True),
        ("memory.txt", False),
        ("run abc", False),
        ("", False),
    ],
)
def test_what_a_run_found_by_itself_is_told_from_what_it_was_given(source: str, found: bool) -> None:
    assert found_by_itself(source) is found


def tried_again(folder: Any, prompts: list[str]) -> Fractal:
    """One whose first attempt is not accepted; what its model is shown is kept in `prompts`."""

    def answer(ask: Ask) -> Any:
        prompts.append(ask.user)
        if ask.phase == "check" and ask.attempt == 1:
            return {**ACCEPT, "decision": "RETRY", "validation": "fail", "learned": "look again"}
        return ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}})

    return Fractal(folder, settings={"sandbox": "off"}, ladder=Ladder((Scripted(answer),)))


async def test_parts_of_memory_are_asked_for_once_a_loop_and_stand_there_with_their_names(
    tmp_path: Any,
) -> None:
    prompts: list[str] = []

    fractal = tried_again(tmp_path, prompts)
    memory = Told(fractal.workspace, fractal.config, fractal.systems, fractal._files)
    fractal.__dict__["memory"] = memory
    result = await fractal.run("look")
    notes = [n for n in fractal.root_document(result.run).section(1).notes if n.origin == "tool:memory"]
    assert [(note.key, note.source) for note in notes] == [
        ("context", "memory: files"),
        ("context", "memory: patterns"),
    ]
    assert memory.times == 1
    assert "## Context from memory: files\n```\n- a.txt (run x)\n```" in prompts[0]
    assert "AKIAIOSFODNN7EXAMPLE" not in "".join(prompts)
    again = [prompt for prompt in prompts if "## Attempt 1" in prompt]
    assert again
    assert all("Context from memory: patterns" in prompt for prompt in again)


def test_a_child_is_not_handed_what_memory_gave_its_parent(play: Callable[..., Played]) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.parent:
            return plan({"tool": "list", "args": {}})
        return plan({"subtask": "list the folder"})

    played = play(answer, "list the folder by a subtask")
    child = next(each for each in played.documents.values() if each.meta.parent and each.meta.type == "task")
    assert not [note for note in child.section(1).notes if "memory" in note.source]


async def test_what_memory_learns_while_a_loop_runs_changes_none_of_its_prompts(tmp_path: Any) -> None:
    prompts: list[str] = []

    class Later(Told):
        def known(self, document: Document) -> Sequence[tuple[str, str]]:
            self.times += 1
            return [("way", "solve first: think")] if self.times > 1 else []

    fractal = tried_again(tmp_path, prompts)
    fractal.__dict__["memory"] = Later(fractal.workspace, fractal.config, fractal.systems, fractal._files)
    await fractal.run("look")
    assert len(prompts) > 2 and "solve first" not in "".join(prompts)
