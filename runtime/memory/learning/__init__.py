"""Guidance from success and failure: experiences, patterns, trials."""
