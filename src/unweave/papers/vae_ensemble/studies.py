"""What the recipes of this paper train, read from `studies.yaml`."""

from unweave.papers.catalog import data_file

__all__ = ["ABLATIONS", "APART", "BEYOND", "COLOUR", "LARGEST_GAMMA", "SINGLE", "STUDIES"]

_EVERY = data_file(__package__, "studies.yaml")["studies"]
STUDIES, ABLATIONS, APART = _EVERY["scores"], _EVERY["ablations"], _EVERY["apart"]
COLOUR, BEYOND = _EVERY["colour"], _EVERY["beyond"]
SINGLE = {
    **{name: keys for name, keys in STUDIES["paper"]["methods"].items() if name != "vae_ensemble"},
    "beta_vae": {"beta": 4},
}
"""The methods of Table 1 beside ensembles."""
LARGEST_GAMMA = 10
"""That of the ensembles whose maps the paper shows."""
