"""move, copy, remove, mkdir: nothing is overwritten, nothing protected is touched, links are left alone."""

from __future__ import annotations

import pytest

from runtime.operations.placing import copy, mkdir, move, remove


def test_move_renames_and_moves_into_folders(bench):
    bench.put("a.txt", "1")
    bench.put("d/x", "2")
    bench.call(move, **{"from": "a.txt", "to": "new/b.txt"})
    bench.call(move, **{"from": "new/b.txt", "to": "d"})
    bench.call(move, **{"from": "d", "to": "e"})
    assert bench.names() == ["e/b.txt", "e/x"]


def test_copy_takes_a_folder_with_its_files(bench):
    bench.put("d/x", "1")
    bench.put("d/e/y", "2")
    result = bench.call(copy, **{"from": "d", "to": "f"})
    assert result.text == "copied d to f (2 files)"
    assert bench.names() == ["d/e/y", "d/x", "f/e/y", "f/x"]


def test_nothing_is_overwritten(bench):
    bench.put("a", "1")
    bench.put("b", "2")
    bench.put("d/a", "3")
    for operation in (move, copy):
        assert "exists already" in bench.fails(operation, **{"from": "a", "to": "b"})
        assert "exists already" in bench.fails(operation, **{"from": "a", "to": "d"})
        assert "are the same" in bench.fails(operation, **{"from": "a", "to": "a"})
        assert "lies inside" in bench.fails(operation, **{"from": "d", "to": "d/e"})
        assert "no such file" in bench.fails(operation, **{"from": "nope", "to": "c"})


@pytest.mark.parametrize(
    "place", [".git/x", "state/x", "system/x", "fractal.yaml", ".fractal/x", "d/.git/x", "../x"]
)
def test_protected_places_are_refused(bench, place):
    bench.put("a", "1")
    for operation in (move, copy):
        assert bench.fails(operation, **{"from": "a", "to": place})
    assert bench.fails(mkdir, path=place)


def test_what_is_protected_cannot_be_moved_or_removed_either(bench):
    bench.put("state/x", "1")
    bench.put("sub/.git/config", "2")
    for path in ("state", "state/x", "sub", "sub/.git", ".", ""):
        assert bench.fails(remove, path=path)
        assert bench.fails(move, **{"from": path, "to": "elsewhere"})


def test_links_are_left_alone(bench, tmp_path):
    target = bench.put("real", "1")
    outside = tmp_path / "outside.txt"
    outside.write_text("keep")
    (bench.folder / "link").symlink_to(target)
    (bench.folder / "out").symlink_to(outside)
    (bench.folder / "dangling").symlink_to("nowhere")
    assert "this is a link" in bench.fails(remove, path="link")
    assert "this is a link" in bench.fails(move, **{"from": "link", "to": "b"})
    assert "outside" in bench.fails(remove, path="out")
    assert bench.fails(copy, **{"from": "real", "to": "out"})
    assert bench.call(copy, **{"from": "real", "to": "dangling"}).text == "copied real to nowhere"
    assert outside.read_text() == "keep"


def test_remove_takes_a_folder_and_announces_every_file(bench):
    bench.put("d/a", "1")
    bench.put("d/e/b", "2")
    assert {touch.path.name for touch in remove.prepare(bench.context, path="d")} == {"a", "b"}
    assert bench.call(remove, path="d").text == "removed d and the 2 files in it"
    assert bench.names() == []


def test_remove_of_a_great_many_files_is_left_to_bash(bench):
    for number in range(2_001):
        bench.put(f"d/{number}", "")
    assert "more than 2,000 files" in bench.fails(remove, path="d")


def test_mkdir_is_at_ease_with_what_exists_but_not_with_a_file(bench):
    bench.put("file", "")
    assert bench.call(mkdir, path="a/b/c").text == "made the folder a/b/c"
    assert bench.call(mkdir, path="a/b").text == "a/b exists already"
    assert "a file of that name exists" in bench.fails(mkdir, path="file")
    assert "not a folder" in bench.fails(mkdir, path="file/sub")
