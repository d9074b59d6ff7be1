"""The suites of the benchmark, one module each; see `tests.benchmarks.suite`."""
