"""The kernel's public names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import kernel


def test_public_names_are_importable_and_typed():
    declared = {
        alias.asname
        for node in ast.walk(ast.parse(Path(kernel.__file__).read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kernel.")
        for alias in node.names
    }
    assert declared == set(kernel.__all__)
    assert all(getattr(kernel, name).__module__.startswith("kernel.") for name in kernel.__all__)


def test_importing_the_kernel_loads_no_module():
    code = "import sys, kernel; print([m for m in sys.modules if m.startswith('kernel.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_errors_that_the_docs_name_are_exported_by_fractal():
    import fractal
    from kernel import errors

    docs = Path(kernel.__file__).parent.parent / "docs"
    named = set(re.findall(r"`([A-Z]\w+)`", " ".join(page.read_text("utf-8") for page in docs.glob("*.md"))))
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {"DocumentError", "ForeignEdit"} <= named & defined <= set(fractal.__all__)
    assert all(getattr(fractal, name) is getattr(errors, name) for name in named & defined)
