"""The classifier of permutation-contrastive learning: do two codes follow each other?"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Contrast"]


@dataclass(frozen=True)
class Contrast:
    """Logits of two codes being neighbours in time, `[M, B, 2 width]` to `[M, B, 1]`.

        r = -Σ_i |w₁ᵢ h_i + w₂ᵢ h'_i + b_i| + a Σ_i h_i² + c

    for h now and h' before, side by side in the input. In the beginning w₁ = 1, w₂ = -1, b = 0,
    a = 1 and c = 0. What is learned in place of a is its root, so that a = root² is never below 0.
    It is computed in float32, whatever the precision of the encoder.

    Args:
        width: Of a code.
    """

    width: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {
            "now": (self.width,),
            "before": (self.width,),
            "offset": (self.width,),
            "root": (1,),
            "constant": (1,),
        }

    @property
    def fans(self) -> tuple[int, int]:
        return 1, 1

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        now, before, offset, root, constant = (
            parameters[name].float()[:, None] for name in self.shapes
        )
        code, earlier = x.float().chunk(2, -1)
        apart = (now * code + before * earlier + offset).abs().sum(-1, keepdim=True)
        return root**2 * code.square().sum(-1, keepdim=True) - apart + constant
