"""What a model is shown of a folder before it is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernel.errors import OperationFailed
from runtime.understanding import Gathered, gather
from runtime.understanding.folder import FILES, Files

PARSE = '''"""Parses."""
import re
from .lexer import tokens

LIMIT = 3


class Parser:
    """Reads a text."""

    def __init__(self, text):
        self.text = text

    def parse_all(self):
        return [self._one(each) for each in tokens(self.text)]

    def _one(self, token):
        return strip_quotes(token)

    def unrelated(self):
        return 1


def strip_quotes(token):
    return token.strip("'")


def far_away():
    raise ValueError("a value is missing here")
'''
TESTS = """import pytest
from src.parse import Parser, strip_quotes

@pytest.fixture
def text():
    return "a b"

def test_parser_reads(text):
    assert Parser(text).parse_all() == ["a", "b"]

def test_quotes():
    assert strip_quotes("'a'") == "a"

def test_other():
    assert 1 + 1 == 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, "src/__init__.py", "")
    write(tmp_path, "src/parse.py", PARSE)
    write(
        tmp_path, "src/lexer.py", "def tokens(text):\n    return text.split()\n\n\ndef unused():\n    pass\n"
    )
    write(tmp_path, "tests/test_parse.py", TESTS)
    write(tmp_path, "tests/test_lexer.py", "def test_nothing():\n    pass\n")
    return tmp_path


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def found(folder: Path, task: str, characters: int = 36_000) -> Gathered:
    return gather(folder, task, characters=characters)


def names(gathered: Gathered) -> list[str]:
    return [each.name for each in gathered.shown]


def titles(gathered: Gathered) -> list[str]:
    return [each.name.partition(" ")[2] for each in gathered.shown]


@pytest.mark.parametrize(
    "said",
    [
        "strip_quotes loses a sign",
        "`strip_quotes` loses a sign",
        "src.parse.strip_quotes loses a sign",
        "call strip_quotes(x)",
        "the function strip_quotes is wrong",
    ],
)
def test_a_definition_that_the_task_names_is_shown_whole_with_line_numbers(project: Path, said: str) -> None:
    shown = next(each for each in found(project, said).shown if each.name.endswith(" strip_quotes"))
    assert shown.name == "src/parse.py:24-25 strip_quotes"
    assert (shown.path, shown.first, shown.last) == ("src/parse.py", 24, 25)
    assert shown.text == '24\tdef strip_quotes(token):\n25\t    return token.strip("\'")'


def test_what_is_named_comes_first_then_what_it_uses_then_its_tests(project: Path) -> None:
    shown = titles(found(project, "`parse_all` of Parser is slow", 24_000))
    assert shown[0] == "Parser"
    assert shown.index("strip_quotes") < shown.index("test_parser_reads")
    assert "tokens" in shown  # imported from the same package
    assert "unused" not in shown
    assert "far_away" not in shown


def test_of_a_test_file_the_tests_that_name_the_symbol_are_shown_with_their_fixtures(project: Path) -> None:
    shown = titles(found(project, "`parse_all` is slow"))
    assert {"test_parser_reads", "text"} <= set(shown)
    assert not {"test_other", "test_nothing"} & set(shown)


def test_common_english_words_name_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "def check(x):\n    return 1\n\n\ndef split(x):\n    return 2\n")
    assert not names(found(tmp_path, "Check whether we split the costs"))
    assert titles(found(tmp_path, "`split` is wrong"))[:1] == ["split"]


def test_of_a_name_defined_in_several_modules_the_one_that_the_task_names_is_shown(tmp_path: Path) -> None:
    for module in ("alpha", "beta", "gamma", "delta"):
        write(tmp_path, f"pkg/{module}.py", f"def run_it():\n    return '{module}'\n")
    assert names(found(tmp_path, "pkg.beta.run_it() fails"))[0] == "pkg/beta.py:1-2 run_it"
    assert "pkg/gamma.py:1-2 run_it" not in names(found(tmp_path, "pkg.beta.run_it() fails"))[:1]


def test_a_name_with_more_than_three_places_is_only_listed(tmp_path: Path) -> None:
    for module in ("alpha", "beta", "gamma", "delta"):
        write(
            tmp_path,
            f"pkg/{module}.py",
            f"def r():\n    return run_it()\n\n\ndef run_it():\n    return '{module}'\n",
        )
    gathered = found(tmp_path, "`run_it` fails", 400)
    assert len([each for each in gathered.left if each.endswith(" run_it")]) == 4


def test_a_large_class_is_an_outline_with_the_named_methods_whole(tmp_path: Path) -> None:
    methods = "".join(f"    def method_{n}(self):\n        return {n}  # {'x' * 60}\n\n" for n in range(200))
    write(tmp_path, "big.py", f"class Big:\n{methods}")
    shown = found(tmp_path, "`Big.method_7` is wrong in `Big`").shown
    outline = next(each for each in shown if each.name.endswith(" Big"))
    assert outline.text.startswith("1\tclass Big:\n23\t    def method_7(self):\n24\t        return 7 ")
    assert re.search(r"\n\(not shown of Big: method_0 2-3, method_1 5-6, .*, …\)$", outline.text)
    assert "return 150 " not in "\n".join(each.text for each in shown)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ('It says "a value is missing here"', "far_away"),
        ("It ends with ValueError: a value is missing here", "far_away"),
        ("The option --dry-run does nothing", "options"),
        ("Setting window.width is ignored", "options"),
    ],
)
def test_a_message_or_option_of_the_task_is_looked_up_in_strings(project: Path, task: str, name: str) -> None:
    write(
        project,
        "src/cli.py",
        "def options(add):\n    add('--dry-run')\n    add('window.width')\n\n\ndef last():\n    pass\n",
    )
    assert titles(found(project, task))[0] == name


LONG_DOC = '    """Makes it long.\n\n' + "    More of it.\n" * 29 + '    """\n'


def test_of_a_long_docstring_the_first_line_is_shown_unless_the_task_is_about_it(tmp_path: Path) -> None:
    write(tmp_path, "a.py", f"def lengthen(x):\n{LONG_DOC}    return x * 2\n")
    assert found(tmp_path, "`lengthen` is wrong").shown[0].text == (
        '1\tdef lengthen(x):\n2\t    """Makes it long.\n33\t    """\n34\t    return x * 2'
    )
    assert "More of it" in found(tmp_path, "`lengthen` is wrong, also its docstring").shown[0].text


def test_small_values_and_functions_that_a_named_function_uses_are_shown(tmp_path: Path) -> None:
    used = "SIGNS = {'a': 1}\n\n\ndef _look(x):\n    return SIGNS[x]\n\n\n"
    rest = "def translate(x):\n    return _look(x)\n\n\ndef unused(y):\n    return 'none'\n"
    write(tmp_path, "a.py", used + rest)
    assert titles(found(tmp_path, "`translate` fails")) == ["translate", "_look", "SIGNS"]


def test_the_imports_of_a_shown_file_of_tests_are_shown(project: Path) -> None:
    text = dict(found(project, "`strip_quotes` is slow").by_file())["tests/test_parse.py (15 lines)"]
    assert text.startswith("1\timport pytest\n2\tfrom src.parse import Parser, strip_quotes\n…\n11\t")


def test_at_most_three_tests_are_shown(tmp_path: Path) -> None:
    write(tmp_path, "sums.py", "def add_all(x):\n    return sum(x)\n")
    tests = "".join(f"def test_{n}():\n    assert add_all([{n}]) == {n}\n\n" for n in range(9))
    write(tmp_path, "test_sums.py", f"from sums import add_all\n\n{tests}")
    assert sum("test_" in each for each in titles(found(tmp_path, "`add_all` fails"))) == 3


def test_what_is_shown_of_a_file_stands_together_in_the_order_of_its_lines(project: Path) -> None:
    files = dict(found(project, "`far_away` and `parse_all` of Parser are slow").by_file())
    text = files["src/parse.py (29 lines)"]
    numbers = [int(each) for each in re.findall(r"^(\d+)\t", text, re.M)]
    assert numbers == sorted(set(numbers))
    assert {8, 15, 28} <= set(numbers)


def test_the_frames_of_a_traceback_are_shown(project: Path) -> None:
    task = 'Traceback:\n  File "/home/me/x/src/parse.py", line 25, in strip_it\nValueError: no'
    assert "src/parse.py:24-25 strip_quotes" in names(found(project, task, 3_000))


def test_a_small_file_that_the_task_names_is_shown_whole(project: Path) -> None:
    assert found(project, "Tidy src/lexer.py").shown[0].text.startswith("1\tdef tokens(text):\n2\t")
    assert names(found(project, "Tidy lexer.py"))[0] == "src/lexer.py"


def test_a_large_file_that_the_task_names_is_an_outline(tmp_path: Path) -> None:
    write(tmp_path, "big.py", "".join(f"def f_{n}():\n    return '{'x' * 200}'\n" for n in range(100)))
    shown = found(tmp_path, "Tidy big.py").shown[0]
    assert shown.text.endswith("(outline: bodies left out)")
    assert "100" not in shown.name
    assert "199\tdef f_99():" in shown.text


def test_notes_that_the_task_names_are_shown_whole_while_they_fit(tmp_path: Path) -> None:
    write(tmp_path, "notes/monday talk.md", "# Monday\nWe met.\n")
    write(tmp_path, "notes/b.md", "# Long\n" + "We spoke about bread.\n" * 3_000 + "The budget is 7.\n")
    shown = found(tmp_path, "Summarise notes/b.md and monday talk.md; what is the budget?").shown
    assert [each.name for each in shown] == ["notes/b.md", "notes/monday talk.md"]
    assert "3002\tThe budget is 7." in shown[0].text
    assert shown[0].text.endswith("(excerpt: the other lines are left out)")
    assert shown[1].text == "1\t# Monday\n2\tWe met."


@pytest.mark.parametrize("said", ["notes/", "the folder notes", "the `notes` directory"])
def test_the_notes_of_a_small_folder_that_the_task_names_are_shown(tmp_path: Path, said: str) -> None:
    for n in range(12):
        write(tmp_path, f"notes/{n}.md", f"Note {n}.\n")
    assert len(names(found(tmp_path, f"Make a table of what is in {said}."))) == 12


def test_of_a_large_table_the_head_is_shown(tmp_path: Path) -> None:
    write(tmp_path, "sales.csv", "day,sum\n" + "".join(f"{n},{n}\n" for n in range(300_000)))
    shown = found(tmp_path, "What is the total in sales.csv?").shown[0]
    assert shown.text.startswith("1\tday,sum\n2\t0,0\n")
    assert shown.last == 20
    assert [name for name, _ in found(tmp_path, "What is the total in sales.csv?").by_file()] == ["sales.csv"]
    assert "sales.csv (" in found(tmp_path, "x").listing


def test_equal_siblings_of_the_listing_are_folded(tmp_path: Path) -> None:
    for n in range(50):
        write(tmp_path, f"locale/l{n}/LC_MESSAGES/x.po", "")
        write(tmp_path, f"docs/page{n}.md", "")
    write(tmp_path, "src/a.py", "def only_here():\n    pass\n")
    write(tmp_path, "tests/test_a.py", "")
    lines = found(tmp_path, "`only_here` fails").listing.split("\n")
    assert lines[:2] == ["src/: a.py", "tests/: test_a.py"]
    assert "locale/*/LC_MESSAGES/: (50 files) x.po" in lines
    assert "docs/: page0.md, page1.md, page10.md, page11.md, 46 more *.md" in lines


def test_of_a_folder_that_the_task_names_all_files_are_listed(tmp_path: Path) -> None:
    for n in range(30):
        write(tmp_path, f"notes/n{n}.md", "A note.\n")
        write(tmp_path, f"other/n{n}.md", "A note.\n")
    lines = found(tmp_path, "Summarise what is in notes/").listing.split("\n")
    assert lines[0].startswith("notes/: ")
    assert lines[0].count(".md") == 30
    assert lines[1].endswith("18 more *.md")


@pytest.mark.parametrize("characters", [2_000, 36_000])
def test_the_listing_and_what_is_shown_have_limits(tmp_path: Path, characters: int) -> None:
    for n in range(700):
        write(tmp_path, f"d{n % 90}/s{n % 7}/name_{n}.x{n}", "")
    write(tmp_path, "a.py", "".join(f"def one_name_{n}():\n    return '{'x' * 300}'\n" for n in range(300)))
    gathered = found(tmp_path, " ".join(f"one_name_{n}()" for n in range(50)), characters)
    assert len(gathered.listing) <= 4_000
    assert len(gathered.listing.split("\n")) <= 120
    assert re.search(r"… and \d+ files more$", gathered.listing)
    assert 0 < sum(len(each.text) for each in gathered.shown) <= characters


def test_what_has_no_room_is_named(project: Path) -> None:
    for name in ("one_long", "two_long", "three_long"):
        write(project, f"src/{name}.py", f"def {name}():\n" + "    x = 'a text of some length'\n" * 25)
    gathered = found(project, "`one_long`, `two_long` and `three_long`", 2_000)
    assert titles(gathered)[:2] == ["one_long", "two_long"]
    assert gathered.left == ("src/three_long.py:1-26 three_long",)
    cut = found(project, "`one_long` is slow", 500)
    assert cut.shown or cut.left == ("src/one_long.py:1-26 one_long",)


def test_ignored_hidden_and_binary_files_and_links_that_lead_outside_are_skipped(tmp_path: Path) -> None:
    folder, code = tmp_path / "in", "def only_here():\n    pass\n"
    write(folder, ".gitignore", "build/\n*.gen.py\n")
    write(folder, "build/a.py", code)
    write(folder, "b.gen.py", code)
    write(folder, ".hidden/c.py", code)
    write(folder, "node_modules/d.py", code)
    write(folder, "e.py", code.encode() + b"\0")
    write(folder, "f.py", code.encode() + b"# \xff")
    write(folder, "g.py", code)
    write(folder, "mine/h.py", code)
    write(tmp_path, "out/i.py", code)
    (folder / "link").symlink_to(tmp_path / "out")
    (folder / "link.py").symlink_to(tmp_path / "out" / "i.py")
    gathered = gather(folder, "`only_here` fails", characters=9_000, hidden=[folder / "mine"])
    assert names(gathered) == ["g.py:1-2 only_here"]
    assert gathered.listing == "g.py, e.py, f.py\n(ignored by git: b.gen.py, build/)"


def test_rules_of_the_repository_above_hold(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, ".gitignore", "/sub/made.py\n*.log\n")
    write(tmp_path, "sub/made.py", "")
    write(tmp_path, "sub/a.log", "")
    write(tmp_path, "sub/keep/.gitignore", "!a.log\n")
    write(tmp_path, "sub/keep/a.log", "")
    write(tmp_path, "sub/own.py", "")
    assert set(found(tmp_path / "sub", "x").listing.split("\n")) == {
        "own.py",
        "keep/: a.log",
        "(ignored by git: a.log, made.py)",
    }


def test_a_file_that_the_guard_refuses_is_left_out(project: Path) -> None:
    def readable(name: str) -> Path:
        if name == "src/parse.py":
            raise OperationFailed("no")
        return project / name

    gathered = gather(project, "`strip_quotes`, `tokens`", characters=9_000, readable=readable)
    assert {each.path for each in gathered.shown} <= {"src/lexer.py", "tests/test_parse.py"}
    assert "src/lexer.py" in {each.path for each in gathered.shown}


def test_secrets_are_redacted_and_the_lines_keep_their_numbers(tmp_path: Path) -> None:
    key = (
        "-----BEGIN PRIVATE KEY-----\n" + "MIIabcdefghijklmnop0123456789\n" * 4 + "-----END PRIVATE KEY-----"
    )
    write(
        tmp_path,
        "a.py",
        f'KEY = """{key}"""\n\n\ndef sign_it():\n    token = "ghp_{"a1B2" * 9}"\n    return token\n',
    )
    shown = found(tmp_path, "`sign_it` and `KEY` of a.py").shown
    text = "\n".join(each.text for each in shown)
    assert "MIIabc" not in text
    assert "ghp_" not in text
    assert "9\tdef sign_it():" in text


def test_the_same_folder_and_task_give_the_same(project: Path) -> None:
    assert found(project, "`Parser` and strip_quotes") == found(project, "`Parser` and strip_quotes")


def test_an_empty_folder_and_a_missing_one_have_nothing(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        assert found(folder, "`strip_quotes` fails") == Gathered("(the folder is empty)", (), ())


@pytest.mark.parametrize(
    "task", ["", "`", "\0", "a" * 99_999, "((((`_`", "日本語のタスク", '"" -- :: ..', "/", "*\\"]
)
def test_any_task_is_read(project: Path, task: str) -> None:
    assert found(project, task).listing


def test_broken_files_are_left_out_alone(project: Path) -> None:
    write(project, "src/broken.py", "def strip_quotes(:\n  )))\nclass")
    write(project, "src/odd.py", "\ufeff" + "(" * 5_000 + "strip_quotes")
    assert "src/parse.py:24-25 strip_quotes" in names(found(project, "`src.parse.strip_quotes` fails"))


def test_hostile_files_keep_nobody_waiting(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", "*a*a*a*a*a*a*a*a*a*b\n[\n/made/\n")
    write(tmp_path, "a" * 250, "")
    write(tmp_path, "made/x.py", "")
    write(tmp_path, "blank.py", "\n " * 50_000 + "\ndef only_here():\n    pass\n")
    write(tmp_path, "packed.js", "f=function(only_here){};" * 20_000)
    write(tmp_path, "words.rb", "def only_here\nend\n" + "%w(" * 50_000)
    gathered = found(tmp_path, "`only_here` fails" + "\n    " * 20_000)
    assert names(gathered)[0] == "blank.py:50002-50003 only_here"
    assert "made/x.py" not in gathered.listing


def test_rules_that_take_long_to_match_keep_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("".join(f"*a*a*b{n}\n" for n in range(500)))
    for n in range(300):
        (tmp_path / f"{'a' * 150}{n:03}").touch()
    files = Files(tmp_path)
    assert 0 < len(files.sizes) < 300
    assert files.more


def test_rules_of_many_folders_keep_nobody_waiting(tmp_path: Path) -> None:
    for n in range(200):
        (tmp_path / f"f{n:03}").mkdir()
        (tmp_path / f"f{n:03}/.gitignore").write_text("".join(f"name{each}\n" for each in range(500)))
        (tmp_path / f"f{n:03}/name1").touch()
        (tmp_path / f"f{n:03}/other").touch()
    names = list(Files(tmp_path).sizes)
    assert "f000/name1" not in names
    assert "f199/name1" in names, "the rules of so many folders are not read"
    assert "f199/other" in names


def test_a_name_that_stands_everywhere_keeps_nobody_waiting(tmp_path: Path) -> None:
    for n in range(8):
        (tmp_path / f"m{n}.py").write_text("x = ab_c\n" + "call(ab_c, ab_c)\n" * 55_000)
    (tmp_path / "a.py").write_text("def ab_c():\n    return 1\n")
    found = gather(tmp_path, "Mend `ab_c()` and `ab_c`, in `call`, `x`.", characters=4_000)
    assert "def ab_c" in "".join(each.text for each in found.shown)


def test_no_more_files_than_the_most_are_noted(tmp_path: Path) -> None:
    for n in range(FILES + 10):
        (tmp_path / f"f{n}").touch()
    files = Files(tmp_path)
    assert len(files.sizes) == FILES
    assert files.more
    assert list(files.sizes) == sorted(files.sizes)
