"""Which files hold tests, by their paths: the only place that says so."""

from __future__ import annotations

import re

_TEST = re.compile(
    r"(?i)(?:^|/)(?:(?:tests?|testdata|__tests__|__snapshots__)/"
    r"|specs?/.*\.(?:rb|[cm]?[jt]sx?|coffee|php|lua)$"  # elsewhere, as in Python, a `spec` is source
    r"|(?:test_|conftest\.|tests?\.)[^/]*$)"
    r"|[._-](?:test|spec)s?\.[^/.]+(?:\.snap)?$"
    r"|(?-i:Tests?)\.[^/.]+$"
)


def is_test(path: str) -> bool:
    """Whether a path relative to a folder is a test file, or lies in a folder of tests."""
    return bool(_TEST.search(path))
