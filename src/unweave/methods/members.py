"""Members of models: M models with n members each are M · n rows, one model's after the other."""

import torch
from torch import Tensor

from unweave.random import Stream

__all__ = ["for_members", "member_seeds"]


def for_members(values: Tensor, members: int) -> Tensor:
    """What belongs to models, `[M, …]`, once for each member, `[M · n, …]`.

    Always a copy: of a single model, a view would have all members at one place, past which
    kernels that count on rows of their own would read.
    """
    return values.repeat_interleave(members, 0)


def member_seeds(seeds: Tensor, members: int) -> Tensor:
    """The seeds `[M · n]` of all members; the first of a model has the model's own.

    Example:
        >>> member_seeds(torch.tensor([0, 7]), 2).tolist()
        [0, 2502487159946921518, 7, 1045337749967299303]
    """
    others = [Stream(seeds, f"member {member}").words(1, 2)[:, 0] for member in range(1, members)]
    derived = [(words[:, 0] >> 1 << 32) + words[:, 1] for words in others]
    return torch.stack([seeds, *derived], 1).flatten()
