"""Land a range of a topic's messages as objects of months, each message once."""
