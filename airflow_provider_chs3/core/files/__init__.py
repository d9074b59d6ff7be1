"""Find out what a month's files hold: columns, rows, bytes, and which are read together."""
