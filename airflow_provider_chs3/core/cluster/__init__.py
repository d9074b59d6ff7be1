"""Find the table: on which nodes, which are up, and what each has."""
