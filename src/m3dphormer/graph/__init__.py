"""What comes in: benchmarks, embedded graphs, your own files, splits, checks."""
