"""Dreams: the consolidation of memory, in stages that can be taken back."""
