"""The settings of a load, each with its reason: from what the nodes have and how much data there is."""
