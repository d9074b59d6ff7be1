"""Load one month, from the first step to the last."""
