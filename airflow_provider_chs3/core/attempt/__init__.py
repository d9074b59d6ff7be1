"""One attempt at a load: what it found, what it plans, and how the next one goes on after an error."""
