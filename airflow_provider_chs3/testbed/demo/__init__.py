"""`./dev demo` and `./dev cluster`."""
