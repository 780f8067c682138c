"""Consolidation: stages that each do one thing to a store, archived first, told afterwards."""
