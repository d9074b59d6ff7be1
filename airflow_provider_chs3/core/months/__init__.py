"""What else can be asked of months: plan, adopt, forget, status."""
