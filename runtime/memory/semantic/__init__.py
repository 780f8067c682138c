"""What is known: observations that came in, the memories that became of them, and how they hang together."""
