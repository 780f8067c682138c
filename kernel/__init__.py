"""The loop and nothing else: one control structure, on documents, for every level of a run."""
