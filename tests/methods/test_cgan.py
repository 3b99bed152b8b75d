"""The conditional GAN against the formula, and its networks."""

import torch

from tests.methods.adversaries import NETWORKS, drawn_codes, judged
from tests.methods.second_stages import SmallStages
from tests.methods.small_fleet import MODELS, same
from unweave.methods import CGAN
from unweave.methods.base import NetworkSpec


def test_losses_are_those_of_the_formula(double):
    stages, expected = SmallStages.make(NETWORKS[CGAN]), []
    for m in range(MODELS):
        one = stages.alone(m)
        nets, real, fake = one.nets(), [], []
        for image, c, noise in drawn_codes(one, int(stages.seeds[m]), int(stages.step)):
            code = torch.tensor([[c + noise.tolist()]], dtype=torch.float64)
            maps = torch.stack([torch.full((4, 4), value).double() for value in c], -1)
            drawn = nets.decode(code).sigmoid()
            for images, logits in ((image, real), (drawn, fake)):
                seen = torch.cat([images, maps[None, None]], -1)
                logits.append(nets.apply["discriminator"](seen).item())
        expected.append(judged(real, fake))
    same(stages.losses(*[CGAN()] * MODELS), expected, rtol=1e-6)


def test_code_and_noise_come_in_side_by_side_and_layers_have_batch_norm():
    networks = CGAN().networks(NetworkSpec("dcgan", (64, 64, 3), 100, 6))
    shapes = networks["model"]["decoder"].shapes
    assert shapes["0.weight"] == (106, 8192)
    scales = [shape for name, shape in shapes.items() if "scale" in name]
    assert scales == [(512,), (256,), (128,), (64,)]
    assert networks["discriminator"]["discriminator"].shapes["0.weight"] == (5, 5, 9, 64)
