"""Tell where the table is, on which nodes, which are up, and what each has."""
