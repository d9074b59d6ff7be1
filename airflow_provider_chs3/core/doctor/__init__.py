"""What `doctor` looks at, a module for each kind of check."""
