"""What variational inference prefers, in models small enough to solve."""
