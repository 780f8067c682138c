"""The runtime imports names of `kernel` alone; the list of deeper imports that are left only gets shorter."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT = ROOT / "tests" / "golden" / "deep_imports.txt"
"""Each line is a module of the kernel and a name that the runtime imports from it."""


def deep_imports() -> set[str]:
    """The names that the runtime imports from modules of the kernel."""
    found: set[str] = set()
    for package in ("runtime", "fractal"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if "kernel." in text else ():
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernel."):
                    found |= {f"{node.module} {each.name}" for each in node.names}
    return found


def test_no_name_of_the_kernel_is_newly_imported_from_a_module_of_it():
    left = set(LEFT.read_text("utf-8").split("\n")) - {""}
    found = deep_imports()
    assert found - left == set(), "import what `kernel` exports, or export it there"
    assert left - found == set(), "no longer imported: take these lines out of the list"
