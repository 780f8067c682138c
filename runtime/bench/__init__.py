"""Every figure that the README quotes, each measured by one command: `fractal bench NAME`."""
