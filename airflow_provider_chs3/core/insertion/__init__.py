"""The insert of a month's objects into staging."""
