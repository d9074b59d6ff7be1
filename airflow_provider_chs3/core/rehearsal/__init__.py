"""The promise, tried on the user's own servers."""
