"""Slots that are names or texts: paths, patterns, addresses, words, command lines, facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from itertools import pairwise

from runtime.reflexes.slots import It, Language, Meant, Read, Reader, Scan, choice_of
from runtime.reflexes.values import NUMBER, number_at

MOST_WORDS = 6
"""Of text without quotes, and of what is asked about, how many words one slot may take."""
_NAME = r"[\w@%+~#&!$=-][\w.@%+~#&!$=\[\]-]*"
_PATH = re.compile(rf"(?:~/|/|(?:\.{{1,2}}/)+)?(?:\.?{_NAME}/)*(?:\.?{_NAME})?")
_DOTTED = re.compile(r"[^/]*[^/.]\.(?:[A-Za-z_][\w-]{0,9}|7z)|\.[A-Za-z][\w.-]*")
_BARE = re.compile(r"[^\W_][\w.-]*(?:/[\w.-]+)*/?|[.~]{1,2}(?:/[\w.-]+)*/?|/(?:[\w.-]+/?)*")
_ARCHIVE = re.compile(r"(?i)\.(?:zip|tar|tar\.(?:gz|bz2|xz)|tgz)$")


def one(form: str, vague: int, *, quoted: bool = True) -> Reader:
    """One plain word of a form; with `quoted` also any text in quotes or backticks."""
    pattern = re.compile(form, re.DOTALL)

    def read(scan: Scan, at: int) -> Iterator[Read]:
        if at < len(scan.tokens):
            token = scan.tokens[at]
            if token.quoted:
                if quoted and token.text:
                    yield at + 1, token.text, 1
            elif pattern.fullmatch(token.text) and token.word not in scan.language.refused:
                yield at + 1, token.text, vague

    return read


def _anyhow(form: str) -> Reader:
    """A word of a form that says what it is, quoted or not."""
    pattern = re.compile(form)

    def read(scan: Scan, at: int) -> Iterator[Read]:
        if at < len(scan.tokens) and pattern.fullmatch(scan.tokens[at].text):
            yield at + 1, scan.tokens[at].text, 0

    return read


def _those(read: Reader, fits: Callable[[Scan, str], object], more: int = 0) -> Reader:
    """What a kind reads, if it fits; `more` is added to how vague it is."""

    def read_some(scan: Scan, at: int) -> Iterator[Read]:
        return ((end, value, vague + more) for end, value, vague in read(scan, at) if fits(scan, str(value)))

    return read_some


def read_named(scan: Scan, at: int) -> Iterator[Read]:
    """A path that shows that it is one: quoted, with a slash or an extension, or a known name."""
    if at < len(scan.tokens):
        token = scan.tokens[at]
        quoted = token.quoted and token.text.strip() and not re.search(r"[*?\n\0]", token.text)
        if quoted or (not token.quoted and _is_path(token.text, scan.language)):
            yield at + 1, token.text, 1


def _is_path(text: str, language: Language) -> bool:
    if not _PATH.fullmatch(text) or NUMBER.fullmatch(text) or re.fullmatch(r"\d+/\d+", text):
        return False
    return "/" in text or text in (".", "..") or _is_file(text, language)


def _is_file(path: str, language: Language) -> bool:
    """Whether the last part of a path looks like a file's name."""
    last = path.rpartition("/")[2]
    if re.fullmatch(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", last):
        return False  # an e-mail address
    return last.lower() in language.names or bool(_DOTTED.fullmatch(last))


def read_path(scan: Scan, at: int) -> Iterator[Read]:
    """A path that is named, or meant by `it`."""
    yield from read_named(scan, at)
    yield from _called(scan, at)
    if scan.it and scan.it.file:
        file = Meant(scan.it.file)
        yield from ((end, file, 2) for end in scan.after(at, scan.language.file_pronouns))


def _called(scan: Scan, at: int) -> Iterator[Read]:
    """A file of the folder by its name without the ending: `my todo list`, `the app log`."""
    if scan.around is None:
        return
    owned = scan.word(at) in scan.language.owners
    first = at + owned
    stem = scan.word(first)
    if not re.fullmatch(r"[^\W\d_][\w-]*", stem) or stem in scan.language.refused:
        return
    kinds = scan.language.choices.get("file kind", {})
    if owned and (kind := kinds.get((stem,))) and scan.around is not None:  # the log
        those = [each for each in scan.around.files if fnmatch(each, str(kind))]
        if len(those) == 1:
            yield first + 1 + (scan.word(first + 1) in scan.language.markers), those[0], 1
    end, suffix = first + 1, ""
    if kind := kinds.get((scan.word(end),)):
        end, suffix = end + 1, str(kind).removeprefix("*")
    marked = scan.word(end) in scan.language.markers
    found = scan.around.called(stem, suffix)
    meant = marked or suffix or (owned and stem not in scan.language.naming)
    if len(found) == 1 and meant:
        yield end + marked, found[0], 1 if marked or suffix else 2


def read_place(scan: Scan, at: int) -> Iterator[Read]:
    """The path of a file or folder, or a bare name."""
    found = list(read_path(scan, at))
    yield from found or ([] if number_at(scan, at) else _bare(scan, at))


_bare = one(_BARE.pattern, 2, quoted=False)
_file = _those(read_path, lambda scan, value: _is_file(value, scan.language))
_folder = _those(read_place, lambda scan, value: not re.fullmatch(r"[^.].*\.[A-Za-z]\w{0,9}", value))
_glob = _anyhow(r"(?=.*[*?])[\w.*?\[\]{},!/@%+~ -]+")
_quoted = one(r"(?!)", 1)
read_word = one(r"(?!['(]).*\w.*", 3)
read_symbol = one(r"[A-Z][A-Z0-9_]+|\w*[^\W_]_\w+|[a-z]+[A-Z]\w*", 2)
"""Text in quotes, or a name that is no word of prose: `TODO`, `my_name`, `getName`."""


def _bare_folder(scan: Scan, at: int) -> Iterator[Read]:
    """Like a folder, and never `it`: for what cannot be done by mistake."""
    return (each for each in _folder(scan, at) if not isinstance(each[1], Meant))


def _known_folder(scan: Scan, at: int) -> Iterator[Read]:
    """A folder: a path that shows it, a folder that exists, or a bare name beside the word folder."""
    before = scan.word(at) in _FOLDER_WORDS
    for end, value, vague in _bare_folder(scan, at + before):
        after = scan.word(end) in _FOLDER_WORDS
        exists = scan.around is not None and str(value).rstrip("/") in scan.around.folders
        named = (before or after) and value.lower() not in scan.language.naming
        if "/" in value or value in (".", "..") or named or exists or scan.tokens[end - 1].quoted:
            yield end + after, value, min(vague, 1) if exists else vague


_FOLDER_WORDS = frozenset({"folder", "directory", "dir", "subfolder"})


def _thing(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or one word that is none of the language of tasks, with or without an article."""
    return _data(scan, at, articles=True)


def _unquoted_symbol(scan: Scan, at: int) -> Iterator[Read]:
    """A name that is no word of prose: `TODO`, `my_name`, `getName`."""
    return iter(()) if scan.tokens[at].quoted else read_symbol(scan, at)


def _bare_word(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or one word without an article."""
    described = scan.word(at) in scan.language.descriptions["hold"]
    return iter(()) if described or (at and scan.word(at - 1) in _ARTICLES) else read_word(scan, at)


def _data(scan: Scan, at: int, *, articles: bool = False) -> Iterator[Read]:
    """Text in quotes, or one word that is none of the language of tasks and has no article."""
    yield from _quoted(scan, at)
    word, language = scan.word(at), scan.language
    if at and scan.word(at - 1) in _ARTICLES and not articles:
        return
    known = word in language.refused or word in language.naming or word in language.relating
    if (
        re.search(r"\w", word)
        and not known
        and word not in language.descriptions["hold"]
        and (word,) not in language.aside
        and not _is_path(word, language)
    ):
        yield at + 1, scan.tokens[at].text, 2


def _meant(scan: Scan, at: int) -> Iterator[Read]:
    """The file that a pronoun means."""
    return (each for each in read_path(scan, at) if isinstance(each[1], Meant))


def _unquoted_file(scan: Scan, at: int) -> Iterator[Read]:
    """A file without quotes."""
    return iter(()) if scan.tokens[at].quoted else _file(scan, at)


def _name(scan: Scan, at: int) -> Iterator[Read]:
    """A file's name or a pattern of names, to be looked for."""
    yield from _glob(scan, at)
    for end, value, vague in _file(scan, at):
        if not isinstance(value, Meant) and "/" not in value:
            yield end, value, vague


def _kind(scan: Scan, at: int) -> Iterator[Read]:
    """What files are called by: `markdown`, `.md`, `*.md`; a pattern of their names."""
    yield from _glob(scan, at)
    yield from choice_of(scan.language.choices.get("file kind", {}))(scan, at)
    if re.fullmatch(r"\.[a-z0-9]{1,8}", scan.word(at)):
        yield at + 1, f"*{scan.word(at)}", 0


def _text(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or `it` when there is a result before."""
    yield from _quoted(scan, at)
    if scan.it and "text" in scan.it.shapes:
        yield from ((end, It("{{ it }}"), 1) for end in scan.after(at, scan.language.text_pronouns))


def _phrase(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or a few plain words that name no file."""
    yield from _quoted(scan, at)
    for end in range(at + 1, min(at + MOST_WORDS, len(scan.tokens)) + 1):
        word = scan.word(end - 1)
        if not re.search(r"\w", word) or word in scan.language.refused or _is_path(word, scan.language):
            return
        yield end, scan.raw(at, end), 3 * (end - at)


MOST_SAID = 8
"""Of a text without quotes that a word such as `line` or `saying` announces, how many words."""
_ARTICLES = ("the", "a", "an", "my", "our", "your", "this")
_INSIDE = ("the", "a", "an", "my", "our", "at", "for", "about", "on", "by", "from", "is", "are", "was")


def _describes(scan: Scan, at: int, end: int) -> bool:
    """Whether words without quotes describe a text, so that they are none: `descriptions` of the language."""
    words = [scan.word(each) for each in range(at, end)]
    told = scan.language.descriptions
    skipped = scan.language.announcing
    first = next((word for word in words if not word.endswith("ly") and word not in skipped), "")
    doing = first.endswith("ing") and first not in told["nouns"]
    if doing or first in told["begin"] or told["hold"] & {*words}:
        return True
    before = scan.word(at - 1) if at else ""
    counted = words[0].isdecimal() or words[0] in scan.language.numbers or words[0].endswith("'s")
    opened = counted or {before, words[0]} & {*_ARTICLES}
    if opened and told["kinds"] & {*words[:4]}:
        return True
    pairs = [*pairwise(words)]
    return any(one in told["kinds"] and other in ("of", *told["begin"]) for one, other in pairs) or any(
        one == "in" and other in told["languages"] for one, other in pairs
    )


def _said(scan: Scan, at: int) -> Iterator[Read]:
    """A text that is announced, in quotes or not: `the line call the bank`; no path, no line break."""
    yield from _quoted(scan, at)
    if scan.word(at) in scan.language.refused:
        return
    for end in range(at + 1, min(at + MOST_SAID, len(scan.tokens)) + 1):
        token = scan.tokens[end - 1]
        limit = token.word in ("\n", "unless", "except", "without", "but", "if", "when", "only")
        if token.quoted or limit or any(read_named(scan, end - 1)):
            return
        if not _describes(scan, at, end):
            yield end, scan.raw(at, end), 3 + end - at


def _item(scan: Scan, at: int) -> Iterator[Read]:
    """A few plain words that could be an entry of a list: `buy flowers for Ann`, `feed the cat`.

    A possessive asks for what it names: `put carbon's atomic number into a.txt`.
    """
    yield from _quoted(scan, at)
    refused = scan.language.refused
    if at and scan.word(at - 1) in _ARTICLES:
        return
    for end in range(at + 1, min(at + MOST_WORDS, len(scan.tokens)) + 1):
        token = scan.tokens[end - 1]
        odd = token.word.endswith("'s") or (
            token.word in refused and (end == at + 1 or token.word not in _INSIDE)
        )
        if odd or token.quoted or not re.search(r"\w", token.text) or any(read_named(scan, end - 1)):
            return
        if token.word not in refused and not _describes(scan, at, end):
            yield end, scan.raw(at, end), 2


def _tail(scan: Scan, at: int) -> Iterator[Read]:
    """The rest of the task verbatim, after a colon; nothing where a limit may follow a quoted text."""
    end = len(scan.tokens)
    words = {each.word for each in scan.tokens[at:]}
    if 0 < at < end and scan.word(at - 1) == ":" and not words & {"\n", "unless", "except"}:
        token = scan.tokens[at]
        if not token.quoted and not _describes(scan, at, end):
            yield end, scan.raw(at, end), 1
        elif token.quoted and at + 1 == end:
            yield end, token.text, 1


def _line(scan: Scan, at: int) -> Iterator[Read]:
    """The rest of the task verbatim, if nothing in it could join or limit it: a command line."""
    end = len(scan.tokens)
    if at < end and not {token.word for token in scan.tokens[at:]} & {*scan.language.refused, ",", ";", "\n"}:
        yield end, scan.raw(at, end), 4 * (end - at)


def read_value(scan: Scan, at: int) -> Iterator[Read]:
    """What a cell is compared with: a number, text in quotes, or one word."""
    value = number_at(scan, at)
    yield from [(at + 1, value, 0)] if value else read_word(scan, at)


_PLAIN = re.compile(r"[^\W\d_][\w’'-]*")
_CAPITAL = re.compile(r"[A-ZÀ-ÖØ-Þ][\w’'-]+")
_OWN = ("my", "our")


def _statement(scan: Scan, at: int) -> Iterator[Read]:
    """A fact in a person's own words, up to the end; nothing where an order may be joined to it."""
    end = len(scan.tokens)
    if at >= end or any(token.word in ("\n", ";") for token in scan.tokens[at:]):
        return
    courtesies = scan.language.courtesies
    if any(end - len(words) > at and scan.follows(end - len(words), words) for words in courtesies):
        return  # what is said without them is the fact
    from runtime.memory.episodes.statements import ordered, statements

    text = scan.raw(at, end)
    plain = text.strip(" \t.!")
    found = statements(plain, scan.systems)
    if found == [plain] and not ordered(plain, scan.systems):
        yield end, plain, 2


def _topic(scan: Scan, at: int) -> Iterator[Read]:
    """Whom or what of a person's own is asked about: `my sister`, `Anna`, `our office in Berlin`."""
    first = at < len(scan.tokens) and scan.tokens[at]
    if not first or not (first.word in _OWN or _CAPITAL.fullmatch(first.text)):
        return
    for end in range(at + 1, min(at + MOST_WORDS, len(scan.tokens)) + 1):
        token = scan.tokens[end - 1]
        inner = token.word in (*_OWN, "in", "of")
        refused = token.word in scan.language.refused and not inner
        if token.quoted or refused or not _PLAIN.fullmatch(token.text) or any(read_named(scan, end - 1)):
            return
        if not inner:
            yield end, scan.raw(at, end), 2 * (end - at)


KINDS: Mapping[str, Reader] = {
    "path": read_path,
    "named path": read_named,
    "file": _file,
    "unquoted file": _unquoted_file,
    "folder": _folder,
    "bare folder": _bare_folder,
    "place": read_place,
    "archive": _those(read_path, lambda scan, value: _ARCHIVE.search(value), -1),
    "name": _name,
    "glob": _glob,
    "kind": _kind,
    "url": _anyhow(r"(?i)https?://[^\s/?#]+\S*"),
    "quoted": _quoted,
    "text": _text,
    "word": read_word,
    "symbol": read_symbol,
    "phrase": _phrase,
    "line": _line,
    "said": _said,
    "said words": _those(_said, lambda scan, value: " " in value),
    "data": _data,
    "thing": _thing,
    "bare word": _bare_word,
    "it": _meant,
    "known folder": _known_folder,
    "item": _item,
    "tail": _tail,
    "plain path": _those(read_path, lambda scan, value: not value.lower().endswith(".json")),
    "unquoted symbol": _unquoted_symbol,
    "value": read_value,
    "statement": _statement,
    "topic": _topic,
}
"""By their names in markdown files."""
