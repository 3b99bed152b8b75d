"""What the documentation is made with."""
