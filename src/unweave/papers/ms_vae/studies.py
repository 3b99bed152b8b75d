"""What the recipes of this paper train, read from `studies.yaml`."""

from unweave.papers.catalog import data_file

__all__ = ["STUDIES", "C", "Z"]

STUDIES = data_file(__package__, "studies.yaml")["studies"]["scores"]
C, Z = 10, 5
"""Latents of both stages; the paper takes 10 for Z on SmallNORB."""
