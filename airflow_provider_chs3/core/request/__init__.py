"""What a user asks of a load."""
