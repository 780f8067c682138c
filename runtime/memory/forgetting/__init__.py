"""Forgetting what a person wants forgotten: found, shown first, and then taken out of everything."""
