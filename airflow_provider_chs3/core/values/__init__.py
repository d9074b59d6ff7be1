"""Plain frozen values and constants that cross rooms; they import the package's errors alone."""
