"""Explorer: a local web page with a slider for every latent and live decoding."""

from unweave.explorer.serving import explore

__all__ = ["explore"]
