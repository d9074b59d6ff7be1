"""Try the promise out on the user's own servers."""
