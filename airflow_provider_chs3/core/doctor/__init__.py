"""Check everything that a load depends on; rehearse the promise on the user's servers."""
