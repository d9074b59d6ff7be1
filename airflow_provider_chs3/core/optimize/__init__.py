"""OPTIMIZE closed months, node by node, within the disk's free space."""
