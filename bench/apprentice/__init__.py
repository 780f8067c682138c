"""The bench of learning: eight types of tasks on real files, and a worker that makes known mistakes."""
