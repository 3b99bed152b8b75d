"""Why data alone do not disentangle: the theorem as a program, and entangled twins."""
