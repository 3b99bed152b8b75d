"""The first stage of a supervised MS-GAN: images from factors that are given."""

from dataclasses import dataclass

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.kernels import unit
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec
from unweave.methods.batch import Batch
from unweave.methods.mixins import KnownFactors
from unweave.methods.posterior import Posterior
from unweave.nets import dcgan

__all__ = ["FromFactors"]


@dataclass(frozen=True, kw_only=True)
class FromFactors(KnownFactors, Method):
    """Images from known factors: what of an image follows from them, on average.

    L = E ‖x - y(c)‖² / pixels

    C are factors of the data, scaled to mean 0 and variance 1 (`data.scaled.scaled_factors`), and
    y is the image that they mean, blurred by all that they do not say. There are as many latents
    as factors. `MSGAN` and `CGAN` over this are their supervised versions.

    Args:
        told: Their names, with commas: `"posX,posY"`.

    Notes:
        Nothing reads C from an image, so such models decode and do not encode.

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
                f"from_factors's told are names with commas, 'posX,posY', not {self.told!r}"
            )

    @property
    def factor_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.told.split(",") if name)

    def check_latents(self, latents: int) -> None:
        count = len(self.factor_names)
        if not count:
            raise UnweaveError("from_factors draws images from factors; say which: told='…'")
        if latents != count:
            raise UnweaveError(f"{self.told} are {count} latents, but got {latents=}")

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        width = dcgan.WIDTHS[spec.architecture]
        return {MODEL: {"decoder": dcgan.decoder(spec.shape, spec.latents, width, "instance")}}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        assert batch.factors is not None, "factors were not given"
        drawn = nets.decode(batch.factors).float().sigmoid()
        error = (drawn - unit(batch.images, drawn.dtype)).square().flatten(1).mean(-1)
        return Losses({MODEL: error}, {"squared_error": error})

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        del nets, images
        raise UnweaveError(
            "from_factors reads no codes from images: they are the factors of the data, "
            "unweave.data.scaled.scaled_factors(data, names)"
        )
