"""Land a range of a topic's messages as objects of periods, each message once."""
