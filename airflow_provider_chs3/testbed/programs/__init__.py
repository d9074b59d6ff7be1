"""The programs of the test bed's nodes: the embedded engine, a real server, and ZooKeeper for replicated servers."""
