"""The page: views of runs and memory as HTML that the server makes, and a run as one file."""
