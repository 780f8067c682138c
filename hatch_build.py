"""Build hook: everything that the wheel installs is below the one package `fractal`.

The checkout has the top-level packages `fractal`, `kernel` and `runtime`. Installed under these names,
the last two would collide with other distributions and with folders of the user. The wheel has
`fractal.kernel` and `fractal.runtime` instead. Imports are rewritten line by line, so that the line
numbers of a traceback are those of the repository. An editable installation uses the checkout as it is.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MOVED = {"fractal": "fractal", "kernel": "fractal/kernel", "runtime": "fractal/runtime"}
IMPORT = re.compile(r"^(\s*(?:from|import)\s+)(?=(?:kernel|runtime)(?:\.|\s))", re.M)


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the rewritten packages and the instructions to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the packages to a temporary folder and include them from there."""
        if version == "editable":
            return
        self.scratch = Path(tempfile.mkdtemp(prefix="fractal-wheel-"))
        for package, target in MOVED.items():
            for source in sorted(Path(self.root, package).rglob("*")):
                if source.is_file() and source.suffix not in (".pyc", ".pyo"):
                    self._add(source, self.scratch / target / source.relative_to(Path(self.root, package)))
        include = build_data["force_include"]
        include[str(self.scratch / "fractal")] = "fractal"
        include[str(Path(self.root, "system"))] = "fractal/runtime/_system"

    def _add(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py":
            target.write_bytes(IMPORT.sub(r"\1fractal.", source.read_text("utf-8")).encode("utf-8"))
        else:
            shutil.copyfile(source, target)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            shutil.rmtree(self.scratch, ignore_errors=True)
