"""Small exact experiments: what objectives prefer where everything can be computed."""
