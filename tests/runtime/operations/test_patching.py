"""patch: a diff as people and models write them, all of it or nothing."""

from __future__ import annotations

import difflib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.tools.operations import Touch
from runtime.operations import patching as unified
from runtime.operations.patching import patch

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\ndef c():\n    return 1\n"


def test_several_places_and_files_change_at_once(bench):
    bench.put("m.py", CODE)
    bench.put("old.txt", "x\ny\n")
    diff = (
        "diff --git a/m.py b/m.py\nindex 1..2 100644\n--- a/m.py\n+++ b/m.py\n"
        "@@ -1,2 +1,2 @@\n def a():\n-    return 1\n+    return 10\n"
        "@@ -9,2 +9,3 @@ def b():\n def c():\n-    return 1\n+    x = 30\n+    return x\n"
        "--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "--- a/old.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"
    )
    result = bench.call(patch, diff=diff)
    assert result.text.splitlines() == [
        "m.py: +3 -2 at lines 1, 9",
        "new/n.txt: new, +2 -0",
        "old.txt: removed",
    ]
    assert bench.text("m.py") == CODE.replace("return 1\n", "return 10\n", 1).replace(
        "return 1\n", "x = 30\n    return x\n"
    )
    assert bench.text("new/n.txt") == "one\ntwo\n"
    assert bench.names() == ["m.py", "new/n.txt"]


@pytest.mark.parametrize(
    "diff",
    [
        # wrong line numbers and counts, as models write them
        "--- a/m.py\n+++ b/m.py\n@@ -40,9 +40,9 @@\n def b():\n-    return 2\n+    return 3\n",
        # no figures at all, no a/ and b/
        "--- m.py\n+++ m.py\n@@\n def b():\n-    return 2\n+    return 3\n",
        # in a fence, with words before it, and an empty line that lost its space
        "So:\n```diff\n--- a/m.py\n+++ b/m.py\n@@ -3 +3 @@\n\n\n"
        " def b():\n-    return 2\n+    return 3\n```\n",
        # with the line ends of another system, and a time behind the name
        "--- a/m.py\t2024\r\n+++ b/m.py\t2024\r\n@@ -5 +5 @@\r\n"
        " def b():\r\n-    return 2\r\n+    return 3\r\n",
    ],
)
def test_a_diff_is_understood_by_what_its_lines_say(bench, diff: str):
    bench.put("m.py", CODE)
    bench.call(patch, diff=diff)
    assert bench.text("m.py") == CODE.replace("return 2", "return 3")


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        ("@@ -1 +1 @@\n-    return 1\n+    return 4\n", "suits lines 2, 10"),
        (
            "@@ -5,2 +5,2 @@\n def b():\n-    return 7\n+    return 3\n",
            "line 6 has '    return 2', the diff '    return 7'",
        ),
        ("@@ -1 +1 @@\n-nowhere\n+x\n", "none of its lines is there, such as 'nowhere'"),
        ("@@ -5,2 +5,2 @@\n def b():\n-    return 3\n+    return 2\n", "is there already"),
        ("@@ -1,1 +1,1 @@\n def a():\n*    return 1\n", "begins with '*'"),
        ("@@\n+x\n", "only adds lines"),
    ],
)
def test_what_does_not_suit_changes_nothing_and_says_why(bench, diff: str, says: str):
    bench.put("m.py", CODE)
    bench.put("other.txt", "one\n")
    good = "--- a/other.txt\n+++ b/other.txt\n@@ -1 +1 @@\n-one\n+two\n"
    assert says in bench.fails(patch, diff=f"{good}--- a/m.py\n+++ b/m.py\n{diff}")


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        ("--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+b\n", "no such file to patch"),
        ("--- /dev/null\n+++ b/m.py\n@@ -0,0 +1 @@\n+b\n", "exists already"),
        ("--- a/m.py\n+++ b/n.py\n@@ -1 +1 @@\n-a\n+b\n", "use move"),
        ("--- a/m.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-def a():\n", "not all of its lines"),
        ("--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n", "protected"),
        ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+b\n", "outside the folder"),
        ("--- a/m.py\n+++ b/m.py\n@@ -1,1 +1,1 @@\n def a():\n", "changes nothing"),
        ("diff --git a/m.py b/n.py\nrename from m.py\nrename to n.py\n", "use move"),
        ("change line 2 to return 3", "no unified diff"),
        ("", "give either diff"),
    ],
)
def test_what_cannot_be_applied_is_refused(bench, diff: str, says: str):
    bench.put("m.py", CODE)
    bench.put(".git/config", "a\n")
    assert says in bench.fails(patch, diff=diff)


def test_a_diff_in_a_file_and_the_files_it_will_touch(bench):
    bench.put("m.py", CODE)
    bench.put("fix.diff", "--- a/m.py\n+++ b/m.py\n@@ -6 +6 @@\n-    return 2\n+    return 3\n")
    touches = patch.prepare(bench.context, path="fix.diff")  # type: ignore[attr-defined]
    assert touches == (Touch(bench.folder / "m.py", touches[0].after),)
    bench.call(patch, path="fix.diff")
    assert "return 3" in bench.text("m.py")


@pytest.mark.parametrize(
    ("text", "diff", "then"),
    [
        ("a\r\nb\r\n", "@@ -2 +2 @@\n-b\n+c\n", "a\r\nc\r\n"),
        ("a\nb", "@@ -2 +2 @@\n-b\n+c\n", "a\nc"),
        ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\n", "@@ -0,0 +1 @@\n+new\n", "new\na\n"),
        ("a\nb\n", "@@ -1,0 +2 @@\n+new\n", "a\nnew\nb\n"),
        ("", "@@ -0,0 +1 @@\n+new\n", "new\n"),
        ("-- x\n++ y\n", "@@ -1,2 +1,2 @@\n--- x\n+++ z\n ++ y\n", "++ z\n++ y\n"),
    ],
)
def test_line_ends_and_ends_of_files(bench, text: str, diff: str, then: str):
    bench.put("f.txt", text)
    bench.call(patch, diff=f"--- a/f.txt\n+++ b/f.txt\n{diff}")
    assert bench.text("f.txt") == then


LINES = st.lists(st.sampled_from(["a", "b", "", "-- c", "++ d", "@@ e", " f", "\\ g"]), max_size=12)


@given(LINES, LINES, st.integers(0, 3))
def test_what_difflib_writes_is_applied_exactly(old: list[str], new: list[str], around: int):
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = "\n".join(difflib.unified_diff(old, new, "a/f", "b/f", n=around, lineterm=""))
    if not diff or not before or not after:
        return
    # the last line may be empty; a diff ends with a line end
    (found,) = unified.read(f"{diff}\n")
    assert unified.apply_patch(before, found)[0] == after


def test_a_changed_line_may_look_like_a_file_header():
    old, new = ["a", "-- c", "b", "x", "y"], ["a", "++ d", "b", "x", "z"]
    diff = "\n".join(difflib.unified_diff(old, new, "a/f", "b/f", n=0, lineterm=""))
    (found,) = unified.read(f"{diff}\n")
    assert unified.apply_patch("".join(f"{line}\n" for line in old), found)[0] == "".join(
        f"{line}\n" for line in new
    )


def test_what_git_writes_is_applied_exactly(bench, tmp_path):
    repository = tmp_path / "r"
    repository.mkdir()

    def git(*words: str) -> str:
        ran = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout

    git("init", "-q")
    for name, text in (("m.py", CODE), ("gone.txt", "1\n2\n"), ("bare.txt", "no end")):
        (repository / name).write_text(text)
        bench.put(name, text)
    git("add", "-A")
    git("commit", "-qm", "one")
    (repository / "m.py").write_text(CODE.replace("return 2", "return 22") + "\n\ndef d():\n    pass\n")
    (repository / "gone.txt").unlink()
    (repository / "bare.txt").write_text("still no end")
    (repository / "added.txt").write_text("new\n")
    git("add", "-A")
    bench.call(patch, diff=git("diff", "--cached"))
    for name in ("m.py", "bare.txt", "added.txt"):
        assert bench.text(name) == (repository / name).read_text()
    assert not (bench.folder / "gone.txt").exists()


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        (b"one\r\ntwo\nthree\r\n", " one\n-two\n+2a\n+2b\n three\n", b"one\r\n2a\n2b\nthree\r\n"),
        (b"one\r\ntwo\nthree\r\n", "-one\n+1a\n+1b\n two\n", b"1a\r\n1b\r\ntwo\nthree\r\n"),
        (b"one\r\ntwo", " one\n two\n+three\n", b"one\r\ntwo\r\nthree"),
        (b"one\ntwo\r\n", " one\n+1b\n two\n+3\n", b"one\n1b\ntwo\r\n3\r\n"),
    ],
)
def test_a_patch_keeps_mixed_line_ends(bench, before: bytes, diff: str, after: bytes) -> None:
    path = bench.put("a.txt", before)
    bench.call(patch, diff=f"--- a/a.txt\n+++ b/a.txt\n@@\n{diff}")
    assert path.read_bytes() == after
