"""Fields of methods: which may differ within a fleet, also where annotations are postponed."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
import torch

import unweave as uw
from tests.methods.postponed import Postponed
from tests.methods.small_fleet import LATENTS, MODELS, SmallFleet, kl_to_prior, mean, same
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import ISAVAE, BetaVAE, PerModel, Strength
from unweave.methods.settings import Setting, settings_of
from unweave.methods.vae import VAE
from unweave.models.config import Config


@dataclass(frozen=True, kw_only=True)
class Eager(VAE):
    """The fields of `Postponed`, with annotations that are not postponed."""

    name = "postponed"

    free: Annotated[float, PerModel] = 0.5
    word: Annotated[str, PerModel] = ""
    shared: float = 1.0


def test_a_strength_is_a_number_per_model():
    assert settings_of(BetaVAE) == {"beta": Setting(float, per_model=True)}
    assert settings_of(ISAVAE)["layout"] == Setting(str, per_model=True)
    assert settings_of(ISAVAE)["learned"] == Setting(bool)
    assert Strength == Annotated[Any, PerModel]


def test_other_marks_do_not_count():
    @dataclass(frozen=True, kw_only=True)
    class Marked(VAE):
        name: ClassVar[str] = "marked"
        size: Annotated[int, "a note"] = 1

    assert settings_of(Marked) == {"size": Setting(int)}


def test_postponed_annotations_are_resolved():
    assert settings_of(Postponed) == settings_of(Eager)
    assert settings_of(Postponed) == {
        "free": Setting(float, per_model=True),
        "word": Setting(str, per_model=True),
        "shared": Setting(float),
    }


@pytest.mark.parametrize("values", [{"free": -1}, {"free": "x"}, {"word": 3}])
def test_postponed_annotations_are_checked(values):
    with pytest.raises(UnweaveError, check=about(*next(iter(values.items())))):
        Postponed(**values)


def test_hashes_and_fleets_do_not_depend_on_how_fields_are_declared():
    one, other = (Config(method=kind(free=2, shared=3)) for kind in (Postponed, Eager))
    values, others = (dict(config.to_dict()["method"]) for config in (one, other))
    assert values.pop("name") != others.pop("name")
    assert values == others
    assert one.hash == Config(method=Postponed(free=2.0, shared=3.0)).hash
    assert one.kind == Config(method=Postponed(free=7, word="x", shared=3)).kind
    assert one.kind != Config(method=Postponed(free=2, shared=4)).kind
    assert Config.from_dict(one.to_dict(), Postponed) == one


def test_names_that_cannot_be_resolved_are_named():
    @dataclass(frozen=True, kw_only=True)
    class Lost(VAE):
        name = "lost"
        free: "NowhereToBeFound" = 0.5  # noqa: F821

    with pytest.raises(UnweaveError) as error:
        Lost()
    assert "Lost" in str(error.value)
    assert "NowhereToBeFound" in str(error.value)


def test_a_method_with_postponed_annotations_trains_as_a_fleet(tmp_path):
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(0, 32, 8))
    method = Postponed(free=[0.0, 4.0], word=["a", "b"])
    quick = {"steps": 2, "batch": 4, "latents": 3, "progress": False}
    fleet = uw.train(method, data, out=tmp_path, **quick)
    assert [(c.method.free, c.method.word) for c in fleet.configs] == [
        (0.0, "a"),
        (0.0, "b"),
        (4.0, "a"),
        (4.0, "b"),
    ]
    assert len({config.fleet for config in fleet.configs}) == 1
    plain = uw.train(VAE(), data, **quick)[0]
    assert fleet[0].curve["loss"].item() == pytest.approx(plain.curve["loss"].item(), rel=1e-6)
    assert fleet[2].curve["loss"].item() > plain.curve["loss"].item() + 10
    loaded = uw.load(tmp_path / fleet.configs[2].hash, method=Postponed)
    assert loaded.config == fleet.configs[2]


def test_values_broadcast_with_losses_and_latents():
    stacked = Postponed.stack([Postponed(free=f, word=str(f)) for f in (1, 2, 3)])
    assert stacked.per_model("free").tolist() == [1, 2, 3]
    assert stacked.per_latent("free").tolist() == [[1], [2], [3]]
    assert stacked.word == ("1", "2", "3")
    alone = Postponed(free=2)
    assert alone.per_model("free").shape == alone.per_latent("free").shape == ()
    beside = torch.ones(MODELS, LATENTS, dtype=torch.float64) * alone.per_latent("free")
    assert beside.dtype == torch.float64
    assert (beside == 2).all()


def test_values_per_latent_differ_between_models(double):
    small = SmallFleet.make()
    methods = [Postponed(free=free) for free in (0, 0.5, 100)]
    expected = []
    for m, method in enumerate(methods):
        reconstruction, kl, _, posteriors = small.textbook_elbo(m)
        each = [mean(kl_to_prior([mu[k]], [v[k]]) for mu, v in posteriors) for k in range(LATENTS)]
        loss = reconstruction + sum(max(one, method.free) for one in each)
        expected.append({"model": loss, "reconstruction": reconstruction, "kl": kl})
    same(small.losses(*methods), expected)
