"""Ensembles in the engine and as trained models: their members, maps, files and checkpoints."""

import json

import numpy as np
import pytest
import safetensors
import torch
from safetensors.torch import save_file

import unweave as uw
from unweave.analysis.activity import kl_in_use
from unweave.analysis.latents import Latents
from unweave.analysis.maps import NORMS, distance_to_orthogonality, dto_pairs, map_distances
from unweave.errors import UnweaveError
from unweave.fleet import checkpoint
from unweave.fleet import train as training
from unweave.fleet.capacity import max_models
from unweave.fleet.diagnostics import curve_columns, diagnose
from unweave.fleet.engine import Engine
from unweave.io.checksums import write_sums
from unweave.methods import EnsembleMember, VAEEnsemble
from unweave.methods.batch import member_seeds
from unweave.models.config import Config
from unweave.models.files import FILES
from unweave.models.model import join
from unweave.models.onnx import export_onnx

N = 3
SETTINGS = {"batch": 8, "latents": 4, "architecture": "small_mlp", "optimiser": uw.Adam(lr=1e-3)}


def runs(steps=12, **settings):
    return [
        Config(
            method=VAEEnsemble(gamma=gamma, members=N, **settings),
            seed=seed,
            steps=steps,
            **SETTINGS,
        )
        for gamma, seed in ((1.0, 4), (5.0, 9))
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ensembles")


@pytest.fixture(scope="module")
def fleet(sprites, folder):
    """Two ensembles of three, trained for a few steps and saved."""
    return training.train_runs(runs(), sprites, out=folder, progress=False)


@pytest.fixture
def images(sprites):
    return sprites[:20]


def test_a_fleet_counts_ensembles_and_holds_their_members(fleet):
    assert len(fleet) == 2
    assert len(fleet.parameters["encoder"]) == len(fleet.parameters["maps"]) == 2 * N
    assert repr(fleet) == "2 vae_ensemble models of 32 × 32 × 1 images"
    assert len(fleet[1].parameters["decoder"]) == N
    assert torch.equal(fleet[1].parameters["decoder"], fleet.parameters["decoder"][N:])


def test_every_member_encodes_and_decodes_with_the_first_as_default(fleet, images):
    mean, logvar = fleet.encode(images)
    assert mean.shape == logvar.shape == (2, 20, 4)
    codes = [fleet.encode(images, member=k)[0] for k in range(N)]
    np.testing.assert_array_equal(codes[0], mean)
    members = fleet.members.encode(images)[0].reshape(2, N, 20, 4)
    decoded = fleet.members.decode(mean[0]).reshape(2, N, 20, 32, 32, 1)
    for k in range(N):
        np.testing.assert_allclose(members[:, k], codes[k], atol=1e-6)
        np.testing.assert_allclose(fleet[1].encode(images, member=k)[0], codes[k][1], atol=1e-6)
        np.testing.assert_allclose(fleet.decode(mean[0], member=k), decoded[:, k], atol=1e-6)
        np.testing.assert_allclose(fleet[1].decode(mean[0], member=k), decoded[1, k], atol=1e-6)
    assert np.abs(codes[0] - codes[1]).max() > 0.01
    with pytest.raises(UnweaveError, match="got 3"):
        fleet.encode(images, member=3)
    with pytest.raises(UnweaveError, match="got -1"):
        fleet[0].decode(mean[0], member=-1)


def test_members_are_models_with_unique_names(fleet):
    members = fleet.members
    assert len(members) == 2 * N
    assert {type(config.method) for config in members.configs} == {EnsembleMember}
    assert [config.method.gamma for config in members.configs] == [1.0] * N + [5.0] * N
    seeds = member_seeds(torch.tensor([4, 9]), N).tolist()
    assert [config.seed for config in members.configs] == seeds
    assert (seeds[0], seeds[N], len(set(seeds))) == (4, 9, 2 * N)
    assert len({config.hash for config in (*members.configs, *fleet.configs)}) == 2 * N + 2
    assert len({config.fleet for config in members.configs}) == 1
    assert [config.hash for config in fleet[1].members.configs] == [
        config.hash for config in members.configs[N:]
    ]
    assert members.members is members


def test_a_single_model_is_its_only_member(sprites):
    fleet = uw.train(uw.methods.VAE(), sprites, steps=1, progress=False, **SETTINGS)
    assert fleet.members is fleet
    assert fleet[0].encode(sprites[:2], member=0)[0].shape == (2, 4)
    with pytest.raises(UnweaveError, match="vae"):
        _ = fleet.maps
    with pytest.raises(UnweaveError, match="got 1"):
        fleet.encode(sprites[:2], member=1)


def test_members_are_scored_compared_and_plotted_like_other_models(fleet, sprites):
    scores = uw.evaluate(fleet[0].members, sprites, metrics=["mig"], progress=False)
    assert len(scores) == N
    assert scores["mig"].nunique() == N
    ensemble = uw.evaluate(fleet[0], sprites, metrics=["mig"], progress=False)
    assert ensemble["mig"][0] == pytest.approx(scores["mig"][0], abs=1e-6)
    ranking = uw.select.mcc(fleet.members, sprites, compare="same", rows=200)
    assert ranking["compared"].tolist() == [N - 1] * 2 * N
    assert uw.show.traversals(fleet[0].members[1], sprites).size[0] > 100


def test_maps_are_those_that_were_trained(fleet):
    maps = fleet.maps
    assert maps.shape == (2, N, N, 4, 4)
    weight = fleet[1].named_parameters()["maps/0.weight"].numpy()
    for i in range(N):
        for j in range(N):
            expected = np.eye(4) if i == j else weight[i, (j - i - 1) % N]
            np.testing.assert_array_equal(fleet[1].maps[i, j], expected)
            np.testing.assert_array_equal(maps[1, i, j], expected)
    with pytest.raises(UnweaveError, match="vae_ensemble_member"):
        _ = fleet.members.maps


def test_maps_take_codes_of_one_member_to_another(sprites):
    """After a while, mapped codes are far closer than the transposed maps would make them."""
    method = VAEEnsemble(members=2, gamma=10)
    model = uw.train(method, sprites, steps=150, progress=False, **SETTINGS)[0]
    codes = [model.encode(sprites, member=k)[0] for k in range(2)]
    for i, j in ((0, 1), (1, 0)):
        mapped = ((codes[i] @ model.maps[i, j].T - codes[j]) ** 2).sum(1).mean()
        wrong = ((codes[i] @ model.maps[i, j] - codes[j]) ** 2).sum(1).mean()
        assert mapped < 0.5 * wrong
        assert mapped < 0.5 * (codes[j] ** 2).sum(1).mean()


def test_maps_that_were_not_learned_are_not_numbers(sprites):
    for method, learned in (
        (VAEEnsemble(members=3, neighbours=1), 3),
        (VAEEnsemble(members=1), 0),
    ):
        model = uw.train(method, sprites, steps=2, progress=False, **SETTINGS)[0]
        known = ~np.isnan(model.maps).any((-2, -1))
        assert known.sum() == method.members + learned
        assert known.diagonal().all()
        if learned:
            assert known[[0, 1, 2], [1, 2, 0]].all()


def test_a_saved_ensemble_is_the_ensemble(fleet, folder, images, tmp_path):
    for model in fleet:
        again = uw.load(folder / model.config.hash)
        assert again.config == model.config
        for k in range(N):
            np.testing.assert_array_equal(
                again.encode(images, member=k)[0], model.encode(images, member=k)[0]
            )
        np.testing.assert_array_equal(again.maps, model.maps)
    path = folder / fleet.configs[0].hash / "weights.safetensors"
    with safetensors.safe_open(path, "pt") as file:
        assert file.get_tensor("maps/0.weight").shape == (N, N - 1, 4, 4)
        assert file.get_tensor("encoder/1.bias").shape == (N, 128)
    member = fleet[1].members[2]
    again = uw.load(member.save(tmp_path / "member"))
    assert again.config == member.config
    np.testing.assert_array_equal(again.encode(images)[0], member.encode(images)[0])
    config = json.loads((tmp_path / "member" / "config.json").read_text())
    assert config["method"]["name"] == "vae_ensemble_member"


def test_ensembles_are_joined_moved_and_not_trained_again(fleet, folder, sprites, images):
    joined = join([fleet[1], fleet[0]]).to("cpu")
    np.testing.assert_array_equal(
        joined.encode(images, member=2)[0], fleet.encode(images, member=2)[0][::-1]
    )
    np.testing.assert_array_equal(joined.maps, fleet.maps[::-1])
    again = training.train_runs(runs(), sprites, out=folder, progress=False)
    for name, buffer in fleet.parameters.items():
        assert torch.equal(again.parameters[name], buffer)


def test_the_kl_of_latents_is_that_of_the_first_member(fleet, sprites):
    latents = [f"kl_{latent}" for latent in range(4)]
    watched = np.random.default_rng(0).permutation(len(sprites))[:128]
    mean, logvar = fleet[1].encode(sprites.images(watched))
    kl = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
    np.testing.assert_allclose(fleet[1].curve[latents].iloc[-1], kl, rtol=1e-4)
    first, second, _ = fleet[1].members
    np.testing.assert_allclose(first.curve[latents].iloc[-1], kl, rtol=1e-4)
    assert second.curve[latents].isna().all(axis=None)
    assert second.curve["loss"].tolist() == fleet[1].curve["loss"].tolist()
    assert set(fleet.curve.columns) >= {"cross_reconstruction", "alignment"}


def test_ensembles_of_different_gamma_and_seed_train_as_each_alone(fleet, sprites):
    for place, config in enumerate(runs()):
        alone = training.train_runs([config], sprites, progress=False)
        for name, buffer in alone.parameters.items():
            torch.testing.assert_close(fleet[place].parameters[name], buffer, rtol=0, atol=1e-6)
    assert not np.isclose(fleet.maps[0], fleet.maps[1])[0, 1].any()


def test_ensembles_resume_from_a_checkpoint(fleet, sprites, tmp_path):
    engine = Engine(runs(), sprites, "cpu")
    engine.advance(5)
    rows = torch.empty(0, len(curve_columns(engine)), 2)
    checkpoint.save(engine, rows, tmp_path / ".fleet-earlier.safetensors")
    advanced = []
    (second,) = training.train_runs(
        runs()[1:], sprites, out=tmp_path, progress=False, on_progress=advanced.append
    )
    assert advanced[0] == "1 model at step 6 of 12"
    both = training.train_runs(runs(), sprites, out=tmp_path, progress=False)
    for name, buffer in fleet.parameters.items():
        torch.testing.assert_close(second.parameters[name], buffer[N:], rtol=0, atol=1e-6)
        torch.testing.assert_close(both.parameters[name], buffer, rtol=0, atol=1e-6)
    loss = fleet[1].curve["loss"].iloc[-1]
    assert second.curve["loss"].iloc[-1] == pytest.approx(loss, rel=1e-5)


def test_fleets_of_ensembles_are_measured_with_fewer_models():
    asked = []

    def measure(count):
        asked.append(count)
        return 100 + 10 * count

    assert (
        max_models(90, 1000, measure, num_members=1)
        == max_models(90, 1000, measure, num_members=3)
        == 80
    )
    assert asked == [2, 6, 40, 1, 2, 40]
    assert max_models(2, 1, None, num_members=16) == 2


def test_the_first_member_of_an_ensemble_is_exported(fleet, tmp_path):
    assert export_onnx(fleet[0], tmp_path / "onnx") < 1e-4
    about = json.loads((tmp_path / "onnx" / "model.json").read_text())
    assert "vae_ensemble_member" in json.dumps(about)


def test_ensembles_of_different_sizes_are_refused_before_training(fleet, sprites, monkeypatch):
    (pair,) = uw.train(VAEEnsemble(members=2), sprites, steps=1, progress=False, **SETTINGS)
    with pytest.raises(UnweaveError, match="members"):
        join([fleet[0], pair])
    monkeypatch.setattr(Engine, "advance", None)
    with pytest.raises(UnweaveError, match="members"):
        uw.train(VAEEnsemble(members=[2, 3]), sprites, steps=1, progress=False, **SETTINGS)


def test_a_file_of_another_number_of_members_is_damaged(fleet, tmp_path):
    folder = fleet[0].save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["method"]["members"] = 2
    config["method"]["neighbours"] = 1
    path = folder / "weights.safetensors"
    with safetensors.safe_open(path, "pt") as file:
        facts = file.metadata()
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    weights["maps/0.weight"] = weights["maps/0.weight"][:, :1].contiguous()
    save_file(weights, path, metadata=facts)
    (folder / "config.json").write_text(json.dumps(config))
    write_sums(folder, FILES)
    with pytest.raises(UnweaveError, match=r"\b2\b.*\b3\b"):
        uw.load(folder)


def test_curves_follow_the_distance_to_orthogonality(fleet, sprites):
    """Of learned maps, and of the best maps between the codes of the watched images."""
    seen = fleet[1].curve.iloc[-1]
    learned = map_distances(fleet[1].maps)
    for norm in NORMS:
        assert seen[f"dto_{norm}"] == pytest.approx(learned[norm].mean(), rel=1e-5)
    watched = np.random.default_rng(0).permutation(len(sprites))[:128]
    codes = [member.encode(sprites.images(watched)) for member in fleet[1].members]
    means, logvars = (np.stack(part) for part in zip(*codes, strict=True))
    latents = Latents(means, kl=kl_in_use(means, logvars, standard_noise=False))
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    best = [np.linalg.lstsq(latents.means[i], latents.means[j], rcond=None)[0].T for i, j in pairs]
    for norm in NORMS:
        expected = np.mean([distance_to_orthogonality(one)[norm] for one in best])
        assert seen[f"fit_dto_{norm}"] == pytest.approx(expected, rel=1e-2)
    expected = np.mean([dto_pairs(latents)[pair] for pair in pairs])
    assert seen["fit_dto"] == pytest.approx(expected, rel=1e-2)


def test_members_trained_apart_have_only_the_distance_of_best_maps(sprites):
    (apart,) = training.train_runs(runs(steps=2, neighbours=0)[:1], sprites, progress=False)
    assert [name for name in apart.curve if "dto" in name] == [
        "fit_dto_frobenius",
        "fit_dto_mean_l1",
        "fit_dto",
    ]
    assert np.isfinite(apart.curve["fit_dto_mean_l1"].iloc[-1])


def test_an_ensemble_that_diverged_is_not_looked_at(sprites):
    engine = Engine(runs(), sprites, "cpu")
    engine.alive[0] = False
    engine.groups["model"].working[:N] = torch.nan
    seen = diagnose(engine)
    assert seen[:, 0].isnan().all()
    assert seen[:, 1].isfinite().all()
