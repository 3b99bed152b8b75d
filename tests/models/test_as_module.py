"""Models as plain modules: outputs, gradients and state of ordinary torch layers."""

import numpy as np
import pytest
import torch
from torch import nn

import unweave as uw
from tests.nets.module_architectures import TINY
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.models.images import ShapeError

SHAPE = (32, 32, 3)


def model_of(architecture="conv", shape=SHAPE, method=None, **settings):
    images = np.random.default_rng(0).random((4, *shape))
    quick = {"steps": 2, "batch": 2, "latents": 3, "init": "torch", "progress": False, **settings}
    method = uw.methods.VAE() if method is None else method
    return uw.train(method, uw.data.load(images), architecture=architecture, **quick)[0]


def first(x):
    return x.permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("architecture", "shape", "likelihood"),
    [
        ("conv", SHAPE, "bernoulli"),
        ("conv", (20, 28, 5), "gaussian"),
        ("conv4x4", (48, 80, 1), "bernoulli"),
        ("broadcast", (20, 28, 5), "gaussian"),
        ("small_big_conv", SHAPE, "bernoulli"),
        ("small_mlp", SHAPE, "gaussian"),
        ("residual", SHAPE, "bernoulli"),
        (TINY, (16, 24, 2), "bernoulli"),
    ],
)
def test_outputs_are_those_of_the_model(architecture, shape, likelihood):
    model = model_of(architecture, shape, likelihood=likelihood)
    before = torch.get_rng_state()
    module = model.as_module()
    assert torch.equal(torch.get_rng_state(), before)
    images = torch.rand(5, *shape, generator=torch.Generator().manual_seed(0))
    mean, logvar = module.encode(first(images))
    ours, theirs = (mean, logvar), model.encode(images)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.detach(), other, atol=1e-5)
    decoded = torch.as_tensor(model.decode(theirs[0]))
    torch.testing.assert_close(module.decode(mean), first(decoded), atol=1e-5, rtol=0)
    torch.testing.assert_close(module(first(images)), first(decoded), atol=1e-5, rtol=0)
    assert 0 <= decoded.min() < decoded.max() <= 1


def test_gradients_and_state_are_those_of_a_module():
    model = model_of()
    module, other = model.as_module(), model_of(seeds=[1]).as_module()
    assert all(not isinstance(value, nn.Identity) for value in module.modules())
    count = sum(len(network) for network in model._networks.values())
    assert sum(parameter.numel() for parameter in module.parameters()) == count
    images = torch.rand(2, 3, 32, 32, requires_grad=True)
    module(images).sum().backward()
    assert images.grad.abs().max() > 0
    assert all(parameter.grad is not None for parameter in module.encoder.parameters())
    assert not torch.equal(other(images), module(images))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(images), module(images))


def test_a_module_has_its_own_weights():
    model = model_of("small_mlp")
    module, images = model.as_module(), np.zeros((1, *SHAPE), np.uint8)
    before = model.encode(images)
    for parameter in module.parameters():
        parameter.data.zero_()
    np.testing.assert_array_equal(model.encode(images), before)


def test_each_member_of_an_ensemble_is_a_module():
    model = model_of("small_mlp", method=uw.methods.VAEEnsemble(members=2))
    images = torch.rand(3, *SHAPE)
    for member in range(2):
        found, _ = model.as_module(member).encode(first(images))
        expected, _ = model.encode(images, member=member)
        np.testing.assert_allclose(found.detach(), expected, atol=1e-5)
    assert not np.allclose(*(model.encode(images, member=member)[0] for member in range(2)))
    with pytest.raises(UnweaveError):
        model.as_module(2)


def test_images_in_another_layout_are_errors():
    with pytest.raises(ShapeError, check=about("this tensor", (32, 32, 3))):
        model_of("small_mlp").as_module().encode(torch.zeros(1, *SHAPE))


def test_models_without_parts_are_errors():
    stage = model_of("small_dcgan", method=uw.methods.MSVAE(), first=model_of("small_mlp"))
    with pytest.raises(UnweaveError, check=about("first")):
        stage.as_module()
    generator = model_of("small_dcgan", method=uw.methods.InfoGAN(), latents=16)
    with pytest.raises(UnweaveError, check=about("encoder")):
        generator.as_module()
