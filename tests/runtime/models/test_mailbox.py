"""Asks and answers as files."""

from __future__ import annotations

import asyncio
import re

import pytest
from lanes import PATIENCE, async_pause, async_until

from kernel.asking.responder import Responder
from kernel.errors import ConfigurationError, ProviderError
from runtime.models.mailbox import Mailbox, slug


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "mailbox"


@pytest.fixture
def mailbox(folder):
    return lambda **more: Mailbox(folder, **{"settle": 0.3, **more})


async def begin(responder, ask):
    """Start asking; return the task and the file of the ask once it is there."""
    task = asyncio.create_task(responder.answer(ask))
    path = responder.folder / f"{slug(ask.key)}.md"
    await async_until(path.exists)
    return task, path


def answer_of(path, suffix=".reply.json"):
    return path.with_name(path.stem + suffix)


async def ended(task, seconds=PATIENCE):
    return (await asyncio.wait_for(task, seconds)).text


async def test_an_ask_is_a_file_with_exactly_the_prompt_and_how_to_answer(mailbox, folder, make_ask):
    prompt = "Rules.\n---\n\n~~~text\nfenced \u2028\n~~~"
    task, path = await begin(mailbox(), make_ask(system=prompt, user="Task.\n\n"))
    text = path.read_text()
    head, _, rest = text.removeprefix("---\n").partition("\n---\n")
    assert rest.startswith(prompt + "\n\nTask.\n\n\n\n---\nTo answer, ")
    assert answer_of(path).name in rest
    assert answer_of(path, ".reply.md").name in rest
    for line in ('loop: "system-abc123"', 'phase: "plan"', "form: ", f"prompt_characters: {len(prompt) + 9}"):
        assert line in head
    task.cancel()


async def test_an_answer_is_found_beside_an_empty_one(mailbox, make_ask):
    task, path = await begin(mailbox(), make_ask())
    answer_of(path).touch()
    answer_of(path, ".reply.md").write_text('{"a": 1}')
    assert await ended(task) == '{"a": 1}'


async def test_an_answer_is_taken_when_it_comes_and_both_are_put_away(mailbox, folder, make_ask):
    responder = mailbox()
    assert isinstance(responder, Responder)
    task, path = await begin(responder, make_ask())
    await async_pause(0.1)
    answer_of(path).write_text('{"a": 1}')
    assert await ended(task) == '{"a": 1}'
    assert [each.name for each in folder.iterdir()] == ["answered"]
    assert len(list((folder / "answered").iterdir())) == 2


async def test_prose_around_the_answer_is_fine(mailbox, make_ask):
    task, path = await begin(mailbox(), make_ask())
    answer_of(path, ".reply.md").write_text('I think:\n```json\n{"a": 1}\n```\n')
    assert '{"a": 1}' in await ended(task)


async def test_an_answer_that_is_already_there_is_taken(mailbox, folder, make_ask):
    ask = make_ask()
    folder.mkdir(parents=True)
    (folder / f"{slug(ask.key)}.reply.json").write_text('{"a": 1}')
    assert await ended(mailbox().answer(ask)) == '{"a": 1}'


async def test_an_answer_that_was_put_away_before_a_crash_is_taken_again(mailbox, folder, make_ask):
    ask = make_ask()
    task, path = await begin(mailbox(), ask)
    answer_of(path).write_text('{"a": 1}')
    await ended(task)
    assert await ended(mailbox().answer(ask)) == '{"a": 1}'
    assert not path.exists()


async def test_a_half_written_answer_is_waited_for(mailbox, make_ask):
    task, path = await begin(mailbox(settle=PATIENCE), make_ask())
    with answer_of(path).open("w") as file:
        for piece in ("", "{", '"a"', ": ", "1", "2", "}"):
            file.write(piece)
            file.flush()
            await async_pause(0.02)
    assert await ended(task) == '{"a": 12}'


async def test_a_broken_answer_that_stays_is_taken_so_that_it_can_be_refused(mailbox, make_ask):
    task, path = await begin(mailbox(), make_ask())
    answer_of(path).write_text("I would rather not.")
    assert await ended(task) == "I would rather not."


async def test_an_empty_file_is_no_answer(mailbox, make_ask):
    task, path = await begin(mailbox(settle=0.05), make_ask())
    answer_of(path).touch()
    await async_pause(0.3)
    assert not task.done()
    temporary = path.with_name("written elsewhere")
    temporary.write_text('{"a": 1}')
    temporary.rename(answer_of(path))
    assert await ended(task) == '{"a": 1}'


async def test_two_loops_wait_side_by_side(mailbox, make_ask):
    responder = mailbox()
    one, path_one = await begin(responder, make_ask(loop="tool-a-abc123-1"))
    two, path_two = await begin(responder, make_ask(loop="tool-b-abc123-2"))
    answer_of(path_two).write_text('{"n": 2}')
    assert await ended(two) == '{"n": 2}'
    assert not one.done()
    answer_of(path_one).write_text('{"n": 1}')
    assert await ended(one) == '{"n": 1}'


async def test_cancelling_removes_the_ask_and_an_answer_that_comes_late_is_taken(mailbox, make_ask):
    task, path = await begin(mailbox(), make_ask())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not path.exists()
    answer_of(path).write_text('{"a": 1}')
    assert await ended(mailbox().answer(make_ask())) == '{"a": 1}'


async def test_a_folder_that_was_made_anew_is_looked_at(folder, make_ask, mailbox):
    task, path = await begin(mailbox(), make_ask())
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    (folder / "answered").mkdir()
    answer_of(path).write_text('{"a": 1}')
    assert await ended(task) == '{"a": 1}'


async def test_waiting_may_have_an_end(mailbox, folder, make_ask):
    with pytest.raises(ProviderError, match=r"no answer to .*system-abc123.*plan.*\.md within 0 s"):
        await mailbox(wait=0.2).answer(make_ask())
    assert list(folder.glob("*.md")) == []


async def test_a_folder_that_cannot_be_written_is_reported(tmp_path, make_ask):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        await Mailbox(tmp_path / "file" / "mailbox").answer(make_ask())


def test_names_are_what_every_file_system_takes():
    assert re.fullmatch(r"[\w.-]+", slug("tool-ä b/1/plan/0/0/abc:*?"))
