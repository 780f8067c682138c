"""Semantic memory: observations, the memories made of them, and the edges between them."""
