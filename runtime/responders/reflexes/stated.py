"""Slots for what memory is told and asked: a fact that fills the rest of a sentence; what one is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runtime.responders.reflexes.names import read_named
from runtime.responders.reflexes.slots import Read, Scan

TOPIC_WORDS = 6
"""Of what is asked about, how many words one slot may take."""
_PLAIN = re.compile(r"[^\W\d_][\w’'-]*")
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w’'-]+")
_OWN = ("my", "our")


def read_statement(scan: Scan, at: int) -> Iterator[Read]:
    """A fact in a person's own words, up to the end; nothing where an order may be joined to it."""
    end = len(scan.tokens)
    if at >= end or any(token.word in ("\n", ";") for token in scan.tokens[at:]):
        return
    courtesies = scan.language.courtesies
    if any(end - len(words) > at and scan.follows(end - len(words), words) for words in courtesies):
        return  # what is said without them is the fact
    from runtime.memory.statements import ordered, statements

    said = scan.raw(at, end)
    plain = said.strip(" \t.!")
    found = statements(plain, scan.language.systems)
    if found == [plain] and not ordered(plain, scan.language.systems):
        yield end, plain, 2


def read_topic(scan: Scan, at: int) -> Iterator[Read]:
    """Whom or what of a person's own is asked about: `my sister`, `Anna`, `our office in Berlin`."""
    first = at < len(scan.tokens) and scan.tokens[at]
    if not first or not (first.word in _OWN or _NAME.fullmatch(first.text)):
        return
    for end in range(at + 1, min(at + TOPIC_WORDS, len(scan.tokens)) + 1):
        token = scan.tokens[end - 1]
        refused = token.word in scan.language.refused and token.word not in (*_OWN, "in", "of")
        if token.quoted or refused or not _PLAIN.fullmatch(token.text) or any(read_named(scan, end - 1)):
            return
        if token.word not in (*_OWN, "in", "of"):
            yield end, scan.raw(at, end), 2 * (end - at)
