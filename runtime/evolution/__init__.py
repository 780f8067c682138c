"""How the system changes: its journal, the tests by which tools are admitted, proposals, needs."""
