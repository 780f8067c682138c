"""What a task names: files that exist, files to be made, addresses, tests, values."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernel.asking.responder import Interview
from runtime.reflexes.surroundings import Surroundings
from runtime.sandbox.tests_by_name import is_test

_ENDINGS = """
py sh bash js ts css html htm json jsonl yaml yml toml ini cfg conf csv tsv txt md rst log xml sql env
"""
SUFFIXES = frozenset(_ENDINGS.split())
"""The endings of names that a task means as new files."""
_NAME = re.compile(r"(?<![\w/@:.-])(?:\.{1,2}/)?[\w][\w./-]*\.[A-Za-z][A-Za-z0-9]{0,5}\b(?![@/])")
_URL = re.compile(r"https?://[^\s<>\"')]+[^\s<>\"').,;:!?]")
_MEASURES = (
    "words?|lines?|sentences?|paragraphs?|characters?|items?|points?|bullets?|headings?|sections?|pages?"
)
"""What numbers limit that are not to be mentioned: `at most 250 words`."""
_HOW_TO_WRITE = "Markdown Readme Python English German French Spanish Italian Please"
_NO_NAMES = frozenset(_HOW_TO_WRITE.split())
"""Words in capitals that say how to write."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_IMPORT = re.compile(r"(?m)^\s*(?:from|import) +\.?([\w.]+)")


@dataclass(frozen=True)
class Task:
    """A task, with the files of the folder it is about."""

    text: str
    folder: Path
    files: tuple[str, ...]
    """The files of the folder that `Surroundings` shows."""

    @property
    def words(self) -> str:
        """The text without addresses."""
        return _URL.sub(" ", self.text)

    @cached_property
    def prose(self) -> str:
        """The text without addresses and names of files."""
        return _NAME.sub(" ", self.words)

    @cached_property
    def urls(self) -> list[str]:
        """The addresses in the text."""
        return list(dict.fromkeys(_URL.findall(self.text)))

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(name.removeprefix("./") for name in _NAME.findall(self.words)))

    @cached_property
    def named(self) -> list[str]:
        """The existing files that the text names, by their path, their name, or a folder with few files."""
        found: list[str] = []
        for name in self._names:
            found += [name] if name in self.files else self._called(name)
        for folder in self.folders:
            inside = [each for each in self.files if each.startswith(f"{folder}/")]
            if len(inside) <= 6 and not any(each in found for each in inside):
                found += inside
        return list(dict.fromkeys(found))

    @cached_property
    def new(self) -> list[str]:
        """The files that the text names and that do not exist."""
        unknown = [name for name in self._names if name not in self.files and not self._called(name)]
        return [name for name in unknown if name.rpartition(".")[2].lower() in SUFFIXES]

    @cached_property
    def folders(self) -> list[str]:
        """The folders of the folder that the text names."""
        known = {str(parent) for each in self.files for parent in Path(each).parents if str(parent) != "."}
        return sorted(
            each for each in known if re.search(rf"(?<![\w/]){re.escape(each)}(?![\w.-]*\.\w)\b", self.words)
        )

    @cached_property
    def new_folders(self) -> list[str]:
        """The folders inside existing ones that the text names and that do not exist: `downloads/papers`."""
        known = {str(parent) for each in self.files for parent in Path(each).parents}
        named = re.findall(r"(?<![\w/.:-])(?:[\w-]+/)+[\w-]+(?![\w/]|\.\w)", self.words)
        return [
            each for each in dict.fromkeys(named) if each not in known and str(Path(each).parent) in known
        ]

    @cached_property
    def facts(self) -> list[str]:
        """Numbers and names in the text that a letter or a note written from it should mention."""
        words = self.prose
        numbers = (
            each[1] for each in re.finditer(rf"(?<![\w.])(\d[\d.:,]*\b)(?! ?-?(?:{_MEASURES})\b)", words)
        )
        names = (
            each for each in re.findall(r"(?<=[a-z0-9,;] )[A-Z][a-z]{2,}\b", words) if each not in _NO_NAMES
        )
        return list(dict.fromkeys([*numbers, *names]))

    def _called(self, name: str) -> list[str]:
        same = [each for each in self.files if each.endswith(f"/{name}")]
        return same if len(same) == 1 else []

    @cached_property
    def tests(self) -> list[str]:
        """The test files that are named, else those of the folder if the task is about tests."""
        named = [name for name in self.named if _runs(name)]
        if named or not re.search(r"(?i)\b(tests?|pytest)\b", self.words):
            return named
        return [name for name in self.files if _runs(name)][:4]

    def text_of(self, name: str) -> str:
        """The text of one of `files`; "" if it has none."""
        try:
            return (self.folder / name).read_text("utf-8") if name in self.files else ""
        except (OSError, ValueError):
            return ""

    def imported(self, name: str) -> list[str]:
        """The files of the folder that a Python file imports, directly or not, the nearest first."""
        found: list[str] = []
        pending = [name]
        while pending:
            each = pending.pop(0)
            for module in _IMPORT.findall(self.text_of(each)):
                path = f"{module.replace('.', '/')}.py"
                beside = str(Path(each).parent / path)
                for candidate in (path, beside):
                    if candidate in self.files and candidate not in found and candidate != name:
                        found.append(candidate)
                        pending.append(candidate)
        return found


def _runs(name: str) -> bool:
    """Whether this is a file of tests that a runner is started with."""
    told = name.rpartition("/")[2] not in ("conftest.py", "__init__.py")
    return told and is_test(name) and name.endswith((".py", ".js"))


def read_task(interview: Interview) -> Task:
    """The task of the interview's document, with what a person answered, and the folder as it is now."""
    document = interview.ask.document
    answers = [note.text for note in document.section(1).notes if note.key in ("answer", "guidance")]
    text = "\n".join([document.task, *answers])
    return Task(text, interview.folder, Surroundings(interview.folder, interview.hidden).files)


def definitions(text: str) -> list[Definition]:
    """The top-level functions and classes of Python code; none if it does not compile."""
    with suppress(SyntaxError, ValueError, RecursionError):
        return [node for node in ast.parse(text).body if isinstance(node, Definition)]
    return []
