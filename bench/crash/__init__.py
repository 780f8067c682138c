"""Crashes a run at every call that changes a file, and by SIGKILL; then resumes it and checks the outcome.

`python -m bench resume` is the command. The run under test is `fractal run` in a process of its own, with a
model behind HTTP. Everything is counted outside of it: by the model's server and in the files.
"""
