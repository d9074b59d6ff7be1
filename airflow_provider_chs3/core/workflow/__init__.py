"""What a workflow asks of the world: operations, their answers, and the clock between them."""
