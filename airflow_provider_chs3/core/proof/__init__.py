"""Whether staging holds exactly the objects' rows; and which file or value is to blame where it cannot."""
