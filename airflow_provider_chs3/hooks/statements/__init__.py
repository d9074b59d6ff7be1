"""Statements of users, run through the hook, the DB API or SQLAlchemy: parameters, rows, answers."""
