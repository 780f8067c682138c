"""What is told about runs to other programs: traces, and tables for analysis."""
