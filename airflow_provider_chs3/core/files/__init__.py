"""Find out what a period's files hold: columns, rows, bytes, and which are read together."""
