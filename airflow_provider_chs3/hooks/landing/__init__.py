"""What landing a topic needs: the topic's messages, their files, and objects that are written once."""
