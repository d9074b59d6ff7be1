"""What the files of a month hold: columns, rows and bytes, and which of them are read together."""
