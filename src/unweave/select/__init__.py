"""Model selection with or without labels: rankings with reasons, and consensus between models."""

from unweave.analysis.latents import Latents, SelectionError
from unweave.analysis.maps import (
    distance_to_orthogonality,
    dto_pairs,
    least_squares_maps,
    map_distances,
)
from unweave.models.members import Aligned, aligned_codes, aligned_posteriors, member_agreement
from unweave.select.activity import MemberActivity, member_activity
from unweave.select.agreement import cka, cka_pairs, dto, mcc, mcc_pairs
from unweave.select.consensus import Consensus, consensus
from unweave.select.naming import name_latents
from unweave.select.pareto import fronts, pareto
from unweave.select.supervised import supervised
from unweave.select.udr import UDRScores, udr, udr_scores

__all__ = [
    "Aligned",
    "Consensus",
    "Latents",
    "MemberActivity",
    "SelectionError",
    "UDRScores",
    "aligned_codes",
    "aligned_posteriors",
    "cka",
    "cka_pairs",
    "consensus",
    "distance_to_orthogonality",
    "dto",
    "dto_pairs",
    "fronts",
    "least_squares_maps",
    "map_distances",
    "mcc",
    "mcc_pairs",
    "member_activity",
    "member_agreement",
    "name_latents",
    "pareto",
    "supervised",
    "udr",
    "udr_scores",
]


def __dir__() -> list[str]:
    return sorted(__all__)
