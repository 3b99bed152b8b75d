"""What comes from outside and goes there: arguments, arrays, paths, and files of every kind."""
