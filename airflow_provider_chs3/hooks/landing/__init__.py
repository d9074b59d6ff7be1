"""Read a topic's messages, make files of them, and write each object once."""
