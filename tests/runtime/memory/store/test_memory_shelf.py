"""The shelf in memory keeps the contract."""

from __future__ import annotations

from contract import Contract


class TestMemory(Contract):
    STORE = "memory"
