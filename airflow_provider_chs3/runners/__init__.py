"""Carry out workflows: with blocking I/O, detached over HTTP, or in the background."""
