"""Servers of further sources, as processes on loopback: each is a module."""
