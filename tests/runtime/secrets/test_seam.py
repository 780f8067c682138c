"""The kernel knows no secrets; whatever is imported of Fractal tells it of those of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

TEXT = "password=Kq7vZt2mXw9b"


def shown_after(begin: str) -> str:
    """What the kernel shows of the text in a new process."""
    code = f"{begin}\nfrom kernel.document.redaction import redact\nprint(redact({TEXT!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("begin", ["import runtime", "import runtime.workspace.runs", "import fractal"])
def test_every_way_into_fractal_hides_secrets_in_what_the_kernel_stores(begin: str) -> None:
    assert shown_after(begin) == "password=[redacted password]\n"


def test_the_kernel_alone_shows_nothing_until_it_is_told_what_secrets_are() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        shown_after("import kernel")
    told = "from kernel.document.redaction import Secrets, use\nuse(Secrets)"
    assert shown_after(told) == f"{TEXT}\n"
