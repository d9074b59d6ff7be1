"""Plan, prove, approve, adopt, restore and forget periods; views that follow."""
