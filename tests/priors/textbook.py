"""Lp-nested densities from the equations, one number at a time, on nested lists."""

import math

NESTED = "2x(1,2),4"
NESTED_LISTS = [[0, [1, 2]], [3, [4, 5]], [6, 7, 8, 9]]
NESTED_EXPONENTS = [1.3, 0.6, 3.0, 2.1, 20.0, 4.0]
"""A tree of ten latents, the same as lists, and very different exponents of its nodes."""


def latents_below(node):
    return 1 if isinstance(node, int) else sum(map(latents_below, node))


def norm(node, z, exponents):
    """Return v of a node; removes its exponents from the front of a list."""
    if isinstance(node, int):
        return abs(z[node])
    p = exponents.pop(0)
    return sum(norm(child, z, exponents) ** p for child in node) ** (1 / p)


def log_surface_terms(node, exponents):
    """log Π_i p_i^-(l_i - 1) Π_k Γ(n_ik / p_i) / Γ(n_i / p_i), below a node and with it."""
    if isinstance(node, int):
        return 0.0
    p = exponents.pop(0)
    own = -(len(node) - 1) * math.log(p) - math.lgamma(latents_below(node) / p)
    own += sum(math.lgamma(latents_below(child) / p) for child in node)
    return own + sum(log_surface_terms(child, exponents) for child in node)


def log_density(node, z, exponents, s):
    """log ψ(f(z)) / S_f(f(z)), from its two parts."""
    n, p = latents_below(node), exponents[0]
    f = norm(node, z, list(exponents))
    log_psi = math.log(p) + (n - 1) * math.log(f) - f**p / s
    log_psi -= math.lgamma(n / p) + n / p * math.log(s)
    log_surface = n * math.log(2) + log_surface_terms(node, list(exponents))
    return log_psi - log_surface - (n - 1) * math.log(f)
