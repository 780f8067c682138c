"""Every figure that the README quotes, each measured by one command: `python -m bench NAME`."""
