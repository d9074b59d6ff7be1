"""Load one period, from the first step to the last."""
