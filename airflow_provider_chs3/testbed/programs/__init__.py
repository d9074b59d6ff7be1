"""What a node of the test bed runs: the embedded engine, a real server, and the ZooKeeper of replicated ones."""
