"""Why data alone do not determine a disentangled code: Theorem 1 and entangled twins."""
