"""Writes runtime/models/prices.json, from litellm's table: the models of the providers in endpoints.py."""

from __future__ import annotations

import json
from datetime import date
from importlib.metadata import version
from pathlib import Path

from runtime.models.endpoints import ENDPOINTS
from runtime.models.prices import litellm_folder, table_in

ROOT = Path(__file__).resolve().parent.parent
KEPT = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "max_input_tokens",
    "supports_vision",
)


def main() -> None:
    """Keep the models that chat, and what Fractal reads of them; a line for each."""
    folder = litellm_folder()
    if folder is None:
        raise SystemExit("litellm is not installed: pip install '.[llm]'")
    lines = [f' "": {{"source": "litellm {version("litellm")}", "date": "{date.today()}"}}']
    for name, entry in sorted(table_in(folder).items()):
        if entry.get("litellm_provider") in ENDPOINTS and entry.get("mode") == "chat" and KEPT[0] in entry:
            kept = {key: entry[key] for key in KEPT if entry.get(key) is not None}
            lines.append(f" {json.dumps(name)}: {json.dumps(kept)}")
    (ROOT / "runtime" / "models" / "prices.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
