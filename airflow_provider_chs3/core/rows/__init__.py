"""Find a month's rows in a database, and read each column exactly."""
