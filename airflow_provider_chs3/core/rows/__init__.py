"""Tell where a month's rows are in a database, and how each column is read exactly."""
