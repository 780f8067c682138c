"""A slot that stands twice in a phrasing reads the same both times, however the task is read."""

from __future__ import annotations

import pytest

from runtime.api.fractal import shipped_system
from runtime.reflexes.trial import Trial

METHOD = """---
name: napkins
description: napkins given
phrasings: |
  {name} gave {name_2} {napkins} napkins . amelia also gives {name_2} twice the number of napkins
slots: {napkins: exact number, name: proper name, name_2: proper name}
steps:
  - tool: calc
    args: {expression: '2*{{ napkins }}'}
success:
  - {step: 1, has: .}
output: '{{ steps[1].result }}'
---
# Napkins
"""


@pytest.mark.parametrize(("second", "planned"), [("Olivia", True), ("William", False), ("Ben", False)])
def test_roles_that_are_swapped_are_read_neither_by_words_nor_by_meaning(second: str, planned: bool) -> None:
    task = f"William gave Olivia 9 napkins. Amelia also gives {second} twice the number of napkins."
    assert (Trial((shipped_system(),)).plan(METHOD, task) is not None) is planned
