"""How SQL is written: what is quoted, and the settings with which an answer is complete under every profile."""
