"""Tables 3 and 4: architecture and hyperparameters."""

from functools import partial

from unweave.papers.frames import settings
from unweave.papers.recipe import Recipe

__all__ = ["TABLES_3_4"]

VALUES = {
    "encoder 1": "4×4 conv, 32 ReLU, stride 2, pad 1",
    "encoder 2": "4×4 conv, 32 ReLU, stride 2, pad 1",
    "encoder 3": "4×4 conv, 64 ReLU, stride 2, pad 1",
    "encoder 4": "4×4 conv, 64 ReLU, stride 2, pad 1",
    "encoder 5": "4×4 conv, 256 ReLU, stride 1",
    "encoder 6": "FC 256 × (2 × d)",
    "decoder 1": "FC d × 256, ReLU",
    "decoder 2": "4×4 upconv, 64 ReLU, stride 1",
    "decoder 3": "4×4 conv, 64 ReLU, stride 2, pad 1",
    "decoder 4": "4×4 conv, 32 ReLU, stride 2, pad 1",
    "decoder 5": "4×4 conv, 32 ReLU, stride 2, pad 1",
    "decoder 6": "4×4 conv, nc, stride 2, pad 1",
    "batch size": 64,
    "latent dimension": 10,
    "optimizer": "Adam",
    "Adam: beta1": 0.9,
    "Adam: beta2": 0.999,
    "learning rate": "1e-4",
}
"""As printed; the decoder's convolutions must be transposed ones for the sizes to fit."""

TABLES_3_4 = Recipe(
    name="vae-ensemble/tables-3-4",
    title="Architecture (here: conv4x4) and hyperparameters",
    where="Tables 3 and 4",
    claim="All experiments use these settings.",
    published=partial(settings, VALUES),
)
