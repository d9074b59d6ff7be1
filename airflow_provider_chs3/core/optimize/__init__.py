"""OPTIMIZE closed periods, node by node, within the disk's free space."""
