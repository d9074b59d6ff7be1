"""Plain frozen values and constants shared by all rooms; they import only the package's errors."""
