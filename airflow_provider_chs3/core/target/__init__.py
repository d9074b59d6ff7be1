"""Find the table: its nodes, structure, partitions, and whether a load may start."""
