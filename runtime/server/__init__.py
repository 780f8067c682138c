"""The service: memory, runs and a page over HTTP, for `fractal serve`."""
