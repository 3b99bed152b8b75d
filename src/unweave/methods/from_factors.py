"""Images from known factors: the first stage of a supervised MS-GAN."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.arguments import renamed_arguments, renamed_attribute
from unweave.kernels import unit
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import KnownFactors
from unweave.nets import dcgan

__all__ = ["FromFactors"]


@renamed_arguments(told="known_factors")
@dataclass(frozen=True, kw_only=True)
class FromFactors(KnownFactors, Method):
    """Images from known factors: predict the mean image for given factors.

    L = E ‖x - y(c)‖² / pixels

    C are known factors of the data, scaled to mean 0 and variance 1
    (`data.dataset.scaled_factors`), and y is the mean image given C, blurred by all other factors.
    There are as many latents as factors. With this first stage, `MSGAN` and `CGAN` are supervised.

    Args:
        known_factors: Names of the factors to decode, separated by commas, as in `"posX,posY"`.

    Notes:
        There is no encoder: these models decode factors but do not encode images.

    References:
        Srivastava et al., Improving the Reconstruction of Disentangled Representation Learners via
        Multi-Stage Modeling, arXiv:2010.13187.
    """

    name = "from_factors"
    label = "from factors"
    architectures = dcgan.WIDTHS
    likelihoods = ("bernoulli",)
    saved_as: ClassVar[Mapping[str, str]] = {"known_factors": "told"}
    told = renamed_attribute("told", "known_factors")

    known_factors: str = ""

    def check(self) -> None:
        if self.known_factors and not all(map(str.strip, self.known_factors.split(","))):
            raise UnweaveError(
                "known_factors of from_factors must be factor names separated by commas, such as "
                f"'posX,posY', got {self.known_factors!r}",
                subject="known_factors",
            )

    @property
    def factor_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.known_factors.split(",") if name)

    def check_latents(self, latents: int) -> None:
        count = len(self.factor_names)
        if not count:
            raise UnweaveError(
                "from_factors needs the names of known factors, such as known_factors='posX,posY'",
                subject="known_factors",
            )
        if latents != count:
            raise UnweaveError(
                f"latents must be {count}, the number of known_factors {self.known_factors!r}, "
                f"got {latents}",
                subject="latents",
            )

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        width = dcgan.WIDTHS[spec.architecture]
        return {MODEL: {"decoder": dcgan.decoder(spec.shape, spec.latents, width, "instance")}}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        assert batch.factors is not None, "the batch has no factors"
        decoded = nets.decode(batch.factors).float().sigmoid()
        error = (decoded - unit(batch.images, decoded.dtype)).square().flatten(1).mean(-1)
        return Losses({MODEL: error}, {"squared_error": error})

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        del nets, images
        raise UnweaveError(
            "from_factors has no encoder; its codes are the known factors of the data, "
            "unweave.data.dataset.scaled_factors(data, names)",
            subject="codes",
        )
