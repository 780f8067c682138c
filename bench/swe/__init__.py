"""Real bug fixes and six jobs that are no code, done by three harnesses with the same model.

`fixes.yaml` says what the fixes are. Whoever runs the bench fetches their repositories.
"""
