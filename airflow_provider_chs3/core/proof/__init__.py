"""Prove that staging holds exactly the objects' rows; name the file or value to blame where it cannot."""
