"""How staging becomes the month, and what is recorded of it."""
