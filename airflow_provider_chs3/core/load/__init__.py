"""The load of one month, from its first step to its last."""
