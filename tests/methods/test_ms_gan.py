"""MS-GAN against the formula, its networks, and what its images keep of C."""

from dataclasses import replace

import numpy as np
import torch

import unweave as uw
from tests.methods.second_stages import blobs, first_stage
from tests.methods.small_fleet import SmallFleet, judged, random
from unweave.methods import MSGAN
from unweave.methods.base import NetworkSpec
from unweave.nets.adam import Adam


def textbook(fleet, m, method):
    del method
    nets, real, fake = fleet.alone(m).nets(), [], []
    for (image, c), noise in zip(fleet.drawn_codes(m), fleet.generator_noise(m), strict=True):
        blurry = nets.first.decode(torch.tensor([[c]], dtype=torch.float64)).sigmoid()
        drawn = nets.apply["decoder"](blurry, noise[None, None].double()).sigmoid()
        for images, logits in ((image, real), (drawn, fake)):
            seen = torch.cat([images, blurry], -1)
            logits.append(nets.apply["discriminator"](seen).item())
    return judged(real, fake)


def test_an_image_has_one_blurry_image_for_good_and_noise_that_is_new(double):
    stages = SmallFleet.of(MSGAN())
    seen = []

    def watched(step):
        moved = replace(stages, step=torch.tensor(step))
        nets = moved.nets()
        generate = nets.apply["decoder"]

        def keep(blurry, noise):
            seen.append((blurry, noise))
            return generate(blurry, noise)

        nets.apply["decoder"] = keep
        MSGAN().losses(nets, moved.batch())

    watched(1)
    watched(2)
    (blurry, noise), (again, other) = seen
    assert torch.equal(blurry, again)
    assert not torch.equal(noise, other)


def test_the_networks_are_the_published_ones():
    networks = MSGAN().networks(NetworkSpec("dcgan", (64, 64, 3), 100, 6))
    shapes = networks["discriminator"]["discriminator"].shapes
    convolutions = [shape for shape in shapes.values() if len(shape) == 4]
    assert convolutions == [(5, 5, 6, 64), (5, 5, 64, 128), (5, 5, 128, 256), (5, 5, 256, 512)]
    assert [shape for name, shape in shapes.items() if "scale" in name] == [(128,), (256,), (512,)]
    assert list(shapes.values())[-2:] == [(8192, 1), (1,)]
    assert list(networks["model"]) == ["decoder"]
    adapted = [s for s in networks["model"]["decoder"].shapes.values() if s[0] == 100]
    assert len(adapted) == 7
    assert MSGAN().extra_optimisers() == {"discriminator": Adam(lr=1e-4, beta1=0.5)}


def kept(steps):
    """How far codes of generated images correlate with the C that they were drawn from."""
    model = uw.train(
        MSGAN(),
        blobs(),
        first=first_stage(),
        steps=steps,
        batch=16,
        latents=4,
        architecture="small_dcgan",
        optimiser=Adam(lr=1e-3, beta1=0.5),
        device="cpu",
        progress=False,
    )[0]
    codes = random(200, 6, seed=1).float().numpy()
    found = model.first.encode(model.decode(codes))[0]
    return [np.corrcoef(codes[:, k], found[:, k])[0, 1] for k in range(2)]


def test_images_keep_c_once_the_generator_has_learned():
    assert max(np.abs(kept(0))) < 0.4
    assert min(kept(100)) > 0.8
