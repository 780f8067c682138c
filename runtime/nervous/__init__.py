"""What holds an action back: danger rules, and what a line of shell really does."""
