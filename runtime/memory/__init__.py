"""What is remembered: how things are done, what is known, what happened."""
