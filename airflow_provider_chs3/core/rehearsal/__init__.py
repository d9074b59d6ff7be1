"""Test the promise on the user's own servers."""
