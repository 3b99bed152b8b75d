"""What a user types, by what it is about."""
