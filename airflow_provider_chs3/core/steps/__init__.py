"""The language of workflows: operations, fan-out, the clock between steps."""
