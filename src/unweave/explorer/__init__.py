"""The explorer: a local page with a slider for every latent, and live decoding."""

from unweave.explorer.serving import explore

__all__ = ["explore"]
