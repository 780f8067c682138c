"""Reads words, numbers, dates and JSON from any text."""
