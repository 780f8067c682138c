"""Slots that are names or texts: paths, patterns, addresses, words, columns, command lines, facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runtime.reflexes.slots import It, Language, Meant, Read, Scan, choice_of
from runtime.reflexes.values import NUMBER, number_at

PHRASE_WORDS = 6
"""Of text without quotes, how many words one slot may take."""
_NAME = r"[\w@%+~#&!$=-][\w.@%+~#&!$=\[\]-]*"
_PATH = re.compile(rf"(?:~/|/|(?:\.{{1,2}}/)+)?(?:\.?{_NAME}/)*(?:\.?{_NAME})?")
_DOTTED = re.compile(r"[^/]*[^/.]\.(?:[A-Za-z_][\w-]{0,9}|7z)|\.[A-Za-z][\w.-]*")
_BARE = re.compile(r"[^\W_][\w.-]*(?:/[\w.-]+)*/?|[.~]{1,2}(?:/[\w.-]+)*/?|/(?:[\w.-]+/?)*")
_JSON_PATH = re.compile(r"[^\W\d][\w-]*(?:\.[\w-]+|\[\d+\])*")
_ARCHIVE = re.compile(r"(?i)\.(?:zip|tar|tar\.(?:gz|bz2|xz)|tgz)$")
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]+|\w*[^\W_]_\w+|[a-z]+[A-Z]\w*")
_COLUMN = re.compile(r"[^\W\d][\w.%$#/-]*|#\d+")


def read_named(scan: Scan, at: int) -> Iterator[Read]:
    """A path that shows that it is one: quoted, with a slash or an extension, or a known name."""
    if at >= len(scan.tokens):
        return
    token = scan.tokens[at]
    if token.quoted:
        if token.text.strip() and not re.search(r"[*?\n\0]", token.text):
            yield at + 1, token.text, 1
    elif _is_path(token.text, scan.language):
        yield at + 1, token.text, 1


def _is_path(text: str, language: Language) -> bool:
    if not _PATH.fullmatch(text) or NUMBER.fullmatch(text) or re.fullmatch(r"\d+/\d+", text):
        return False
    return "/" in text or text in (".", "..") or _is_file(text, language)


def _is_file(path: str, language: Language) -> bool:
    """Whether the last part of a path looks like a file's name."""
    last = path.rpartition("/")[2]
    return last.lower() in language.names or bool(_DOTTED.fullmatch(last))


def read_path(scan: Scan, at: int) -> Iterator[Read]:
    """A path that is named, or meant by `it`."""
    yield from read_named(scan, at)
    if scan.it and scan.it.file:
        file = Meant(scan.it.file)
        yield from ((end, file, 2) for end in scan.after(at, scan.language.file_pronouns))


def read_file(scan: Scan, at: int) -> Iterator[Read]:
    """The path of a file, with a file's name at its end."""
    for end, value, vague in read_path(scan, at):
        if _is_file(value, scan.language):
            yield end, value, vague


def read_folder(scan: Scan, at: int) -> Iterator[Read]:
    """The path of a folder, or a bare name such as `src`; nothing that looks like a file."""
    for end, value, vague in read_place(scan, at):
        if not re.fullmatch(r"[^.].*\.[A-Za-z]\w{0,9}", value):
            yield end, value, vague


def read_bare_folder(scan: Scan, at: int) -> Iterator[Read]:
    """Like a folder, and never `it`: for what cannot be done by mistake."""
    return (each for each in read_folder(scan, at) if not isinstance(each[1], Meant))


def read_place(scan: Scan, at: int) -> Iterator[Read]:
    """The path of a file or folder, or a bare name."""
    found = list(read_path(scan, at))
    yield from found
    if found or at >= len(scan.tokens) or scan.tokens[at].quoted:
        return
    text = scan.tokens[at].text
    if _BARE.fullmatch(text) and scan.word(at) not in scan.language.refused and not number_at(scan, at):
        yield at + 1, text, 2


def read_archive(scan: Scan, at: int) -> Iterator[Read]:
    """The path of an archive: a zip or a tar by its name."""
    for end, value, vague in read_path(scan, at):
        if _ARCHIVE.search(str(value)):
            yield end, value, vague - 1


def read_glob(scan: Scan, at: int) -> Iterator[Read]:
    """A pattern of file names: `*.md`, `src/**/*.py`, quoted or not."""
    if at < len(scan.tokens):
        text = scan.tokens[at].text
        if re.search(r"[*?]", text) and re.fullmatch(r"[\w.*?\[\]{},!/@%+~ -]+", text):
            yield at + 1, text, 0


def read_name(scan: Scan, at: int) -> Iterator[Read]:
    """A file's name or a pattern of names, to be looked for."""
    yield from read_glob(scan, at)
    for end, value, vague in read_file(scan, at):
        if not isinstance(value, Meant) and "/" not in value:
            yield end, value, vague


def read_kind(scan: Scan, at: int) -> Iterator[Read]:
    """What files are called by: `markdown`, `.md`, `*.md`; a pattern of their names."""
    yield from read_glob(scan, at)
    yield from choice_of(scan.language.choices.get("file kind", {}))(scan, at)
    if re.fullmatch(r"\.[a-z0-9]{1,8}", scan.word(at)):
        yield at + 1, f"*{scan.word(at)}", 0


def read_url(scan: Scan, at: int) -> Iterator[Read]:
    """An address with its scheme, quoted or not."""
    if at < len(scan.tokens) and re.fullmatch(r"https?://[^\s/?#]+\S*", scan.tokens[at].text, re.IGNORECASE):
        yield at + 1, scan.tokens[at].text, 0


def read_quoted(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes or backticks."""
    if at < len(scan.tokens) and scan.tokens[at].quoted and scan.tokens[at].text:
        yield at + 1, scan.tokens[at].text, 1


def read_word(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or one plain word."""
    yield from read_quoted(scan, at)
    word = scan.word(at)
    plain = word and word[0] not in "'(" and re.search(r"\w", word)
    if plain and word not in scan.language.refused:
        yield at + 1, scan.tokens[at].text, 3


def read_symbol(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or a name that is no word of prose: `TODO`, `my_name`, `getName`."""
    yield from read_quoted(scan, at)
    if at < len(scan.tokens) and not scan.tokens[at].quoted and _SYMBOL.fullmatch(scan.tokens[at].text):
        yield at + 1, scan.tokens[at].text, 2


def read_text(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or `it` when there is a result before."""
    yield from read_quoted(scan, at)
    if scan.it and "text" in scan.it.shapes:
        yield from ((end, It("{{ it }}"), 1) for end in scan.after(at, scan.language.text_pronouns))


def read_phrase(scan: Scan, at: int) -> Iterator[Read]:
    """Text in quotes, or a few plain words that name no file."""
    yield from read_quoted(scan, at)
    for end in range(at + 1, min(at + PHRASE_WORDS, len(scan.tokens)) + 1):
        word = scan.word(end - 1)
        if not re.search(r"\w", word) or word in scan.language.refused or _is_path(word, scan.language):
            return
        yield end, scan.raw(at, end), 3 * (end - at)


def read_line(scan: Scan, at: int) -> Iterator[Read]:
    """All that is left, as it stands, when nothing in it could join or limit it: a command line."""
    end = len(scan.tokens)
    stray = (
        token.word in scan.language.refused or token.word in (",", ";", "\n") for token in scan.tokens[at:]
    )
    if at < end and not any(stray):
        yield end, scan.raw(at, end), 4 * (end - at)


def read_column(scan: Scan, at: int) -> Iterator[Read]:
    """The name of a column or key: quoted, or one plain word."""
    return _of_form(_COLUMN, scan, at)


def read_json_path(scan: Scan, at: int) -> Iterator[Read]:
    """Where a value stands in JSON: `users[0].name`, quoted or not."""
    return _of_form(_JSON_PATH, scan, at)


def _of_form(form: re.Pattern[str], scan: Scan, at: int) -> Iterator[Read]:
    yield from read_quoted(scan, at)
    word = scan.word(at)
    if form.fullmatch(word) and word not in scan.language.refused:
        yield at + 1, scan.tokens[at].text, 2


def read_value(scan: Scan, at: int) -> Iterator[Read]:
    """What a cell is compared with: a number, text in quotes, or one word."""
    if value := number_at(scan, at):
        yield at + 1, value, 0
    else:
        yield from read_word(scan, at)


TOPIC_WORDS = 6
"""Of what is asked about, how many words one slot may take."""
_PLAIN = re.compile(r"[^\W\d_][\w’'-]*")
_CAPITAL = re.compile(r"[A-ZÀ-ÖØ-Þ][\w’'-]+")
_OWN = ("my", "our")


def read_statement(scan: Scan, at: int) -> Iterator[Read]:
    """A fact in a person's own words, up to the end; nothing where an order may be joined to it."""
    end = len(scan.tokens)
    if at >= end or any(token.word in ("\n", ";") for token in scan.tokens[at:]):
        return
    courtesies = scan.language.courtesies
    if any(end - len(words) > at and scan.follows(end - len(words), words) for words in courtesies):
        return  # what is said without them is the fact
    from runtime.memory.episodes.statements import ordered, statements

    said = scan.raw(at, end)
    plain = said.strip(" \t.!")
    found = statements(plain, scan.language.systems)
    if found == [plain] and not ordered(plain, scan.language.systems):
        yield end, plain, 2


def read_topic(scan: Scan, at: int) -> Iterator[Read]:
    """Whom or what of a person's own is asked about: `my sister`, `Anna`, `our office in Berlin`."""
    first = at < len(scan.tokens) and scan.tokens[at]
    if not first or not (first.word in _OWN or _CAPITAL.fullmatch(first.text)):
        return
    for end in range(at + 1, min(at + TOPIC_WORDS, len(scan.tokens)) + 1):
        token = scan.tokens[end - 1]
        refused = token.word in scan.language.refused and token.word not in (*_OWN, "in", "of")
        if token.quoted or refused or not _PLAIN.fullmatch(token.text) or any(read_named(scan, end - 1)):
            return
        if token.word not in (*_OWN, "in", "of"):
            yield end, scan.raw(at, end), 2 * (end - at)
