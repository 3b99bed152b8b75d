"""Input and output: arguments, arrays, paths, and reading and writing of files."""
