"""The conditional GAN against the formula, and its networks."""

import torch

from tests.methods.small_fleet import judged
from unweave.methods import CGAN
from unweave.methods.base import NetworkSpec


def textbook(fleet, m, method):
    del method
    nets, real, fake = fleet.alone(m).nets(), [], []
    for (image, c), noise in zip(fleet.drawn_codes(m), fleet.generator_noise(m), strict=True):
        code = torch.tensor([[c + noise.tolist()]], dtype=torch.float64)
        maps = torch.stack([torch.full((4, 4), value).double() for value in c], -1)
        drawn = nets.decode(code).sigmoid()
        for images, logits in ((image, real), (drawn, fake)):
            seen = torch.cat([images, maps[None, None]], -1)
            logits.append(nets.apply["discriminator"](seen).item())
    return judged(real, fake)


def test_code_and_noise_come_in_side_by_side_and_layers_have_batch_norm():
    networks = CGAN().networks(NetworkSpec("dcgan", (64, 64, 3), 100, 6))
    shapes = networks["model"]["decoder"].shapes
    assert shapes["0.weight"] == (106, 8192)
    scales = [shape for name, shape in shapes.items() if "scale" in name]
    assert scales == [(512,), (256,), (128,), (64,)]
    assert networks["discriminator"]["discriminator"].shapes["0.weight"] == (5, 5, 9, 64)
