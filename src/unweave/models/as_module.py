"""A trained model as an ordinary `torch.nn.Module`."""

from typing import TYPE_CHECKING

from torch import Tensor, nn

from unweave.errors import UnweaveError
from unweave.methods.base import MODEL
from unweave.models.images import check_shape
from unweave.models.networks import networks_of
from unweave.nets.plain import plain_module

if TYPE_CHECKING:
    from unweave.models.model import Model

__all__ = ["TrainedModule", "as_module", "check_single"]


class TrainedModule(nn.Module):
    """Encoder and decoder of one trained model, for floats `[B, C, H, W]` in [0, 1].

    Args:
        encoder: Module from images to mean and log-variance, `[B, 2 d]`.
        decoder: Module from codes to logits or means of images; None if there is no decoder.
        shape: Height, width and channels of images.
        likelihood: Likelihood that the decoder was trained with.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module | None,
        shape: tuple[int, int, int],
        likelihood: str,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.shape, self.likelihood = shape, likelihood

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of the codes, `[B, d]` each."""
        height, width, channels = self.shape
        check_shape((channels, height, width), images.shape[1:], "this tensor")
        mean, logvar = self.encoder(images).chunk(2, -1)
        return mean, logvar

    def decode(self, codes: Tensor) -> Tensor:
        """Return the mean images of codes, `[B, C, H, W]` in [0, 1]."""
        if self.decoder is None:
            raise UnweaveError("this model has no decoder", subject="decoder")
        decoded: Tensor = self.decoder(codes)
        return decoded.sigmoid() if self.likelihood == "bernoulli" else decoded.clamp(0, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the reconstructions of images from their mean codes."""
        return self.decode(self.encode(images)[0])


def as_module(model: "Model", member: int = 0) -> TrainedModule:
    """Return a model as a module; see `Model.as_module`."""
    check_single(model, "convert")
    model.nets(member)  # checks that there is such a member
    config, networks = model.config, networks_of(model.config, model.shape)[MODEL]
    encoder, decoder = (
        plain_module(networks[name], model.parameters[name][member :: config.method.num_members])
        if name in networks
        else None
        for name in ("encoder", "decoder")
    )
    assert encoder is not None, "a single stage has an encoder"
    return TrainedModule(encoder, decoder, model.shape, config.likelihood)


def check_single(model: "Model", verb: str) -> None:
    """Check that a model has a single stage and an encoder network."""
    name = model.config.method.name
    if model.config.first is not None:
        raise UnweaveError(
            f"cannot {verb} {name} models, since only single stages are supported; {verb} the "
            "first stage, model.first",
            subject="first",
        )
    if "encoder" not in model.parameters:
        raise UnweaveError(
            f"cannot {verb} {name} models, since they have no encoder network of their own; "
            f"{verb} a model of another method",
            subject="encoder",
        )
