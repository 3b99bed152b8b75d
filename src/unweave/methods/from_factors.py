"""Images from known factors: the first stage of a supervised MS-GAN."""

from dataclasses import dataclass

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.kernels import unit
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import KnownFactors
from unweave.nets import dcgan

__all__ = ["FromFactors"]


@dataclass(frozen=True, kw_only=True)
class FromFactors(KnownFactors, Method):
    """Images from known factors: predict the mean image for given factors.

    L = E ‖x - y(c)‖² / pixels

    C are known factors of the data, scaled to mean 0 and variance 1
    (`data.dataset.scaled_factors`), and y is the mean image given C, blurred by all other factors.
    There are as many latents as factors. With this first stage, `MSGAN` and `CGAN` are supervised.

    Args:
        told: Names of the known factors, separated by commas, as in `"posX,posY"`.

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

    told: str = ""

    def check(self) -> None:
        if self.told and not all(name.strip() for name in self.told.split(",")):
            raise UnweaveError(
                "told of from_factors must be factor names separated by commas, such as "
                f"'posX,posY', got {self.told!r}",
                subject="told",
            )

    @property
    def factor_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.told.split(",") if name)

    def check_latents(self, latents: int) -> None:
        count = len(self.factor_names)
        if not count:
            raise UnweaveError(
                "from_factors needs the names of known factors, such as told='posX,posY'",
                subject="told",
            )
        if latents != count:
            raise UnweaveError(
                f"latents must be {count}, the number of factors in told={self.told!r}, "
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
