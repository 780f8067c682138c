"""The worker of `bench.learning`, who makes known mistakes, and its eight types of tasks on real files."""
