"""Plan, prove, adopt, restore, discard and forget periods; views that follow."""
