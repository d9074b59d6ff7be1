"""Which settings suit a table best, measured on samples of its files."""
