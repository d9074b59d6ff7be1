"""Find a period's objects, and what they hold; suggest a table for them."""
