"""The figures show the numbers of the experiments."""

import numpy as np
import pytest
from PIL import Image

from unweave.papers.isa_vae.theory import ica, vi_bias
from unweave.papers.isa_vae.theory import vi_bias_figures as figures
from unweave.papers.theory import Ascent


@pytest.fixture(scope="module")
def learned():
    """Three true components, and a training path on which the last one is pruned."""
    data = ica.draw(0, count=30)
    shrinking = data.weights * np.linspace([1, 1, 1], [1.2, 1.1, 0], 11)[:, None]
    return data, {
        1.0: Ascent(data.weights[None].repeat(11, 0), np.zeros(11)),
        5.0: Ascent(shrinking, np.arange(11.0)),
    }


def lines(panel, label):
    (line,) = [line for line in panel.lines if line.get_label() == label]
    return line.get_xydata().T


def test_rotation(tmp_path):
    figure = figures.draw_rotation()
    weights, _, nats = figure.axes
    angle, free = lines(nats, "factorised, free energy")
    assert free.min() == pytest.approx(-57.16, abs=0.01)
    assert angle[free.argmin()] == pytest.approx(np.pi / 4)
    assert lines(nats, "true, log-likelihood")[1] == pytest.approx(-17.82, abs=0.01)
    ends = [line.get_xydata()[1] for line in weights.lines if len(line.get_xydata()) == 2]
    turned = np.concatenate([vi_bias.rotated(0).T, vi_bias.rotated(np.pi / 4).T])
    assert np.array(ends) == pytest.approx(turned)
    figure.save(tmp_path / "rotation.svg")
    assert "free energy" in (tmp_path / "rotation.svg").read_text()


def test_posteriors_are_ellipses_of_one_standard_deviation():
    _, posteriors, _ = figures.draw_rotation().axes
    true, factorised = (line.get_xydata() for line in posteriors.lines[2:4])
    found = figures.fa.posterior(vi_bias.rotated(np.pi / 4), vi_bias.ML_NOISE)
    inside = np.einsum("ni,ij,nj->n", true, np.linalg.inv(found.covariance), true)
    assert inside == pytest.approx(1)
    assert (factorised**2 / found.variances).sum(1) == pytest.approx(1)


def test_over_complete():
    nats, lengths = figures.draw_over_complete().axes
    a, free = lines(nats, "factorised, free energy")
    assert a[free.argmax()] == 0
    assert lines(lengths, "w₁")[1][[0, -1]] == pytest.approx([0.5, 0], abs=1e-6)
    assert lines(lengths, "w₂")[1][[0, -1]] == pytest.approx([0.75**0.5, 1], abs=0.01)


def test_effect_of_beta():
    nats, posteriors, lengths = figures.draw_effect_of_beta((1.0, 5.0)).axes
    assert lines(nats, "β = 5")[1].min() == pytest.approx(-16.68, abs=0.005)
    assert lines(nats, "β = 5")[1].max() == pytest.approx(0, abs=1e-9)
    assert len(posteriors.lines) == 2
    beta, norm = lines(lengths, "w₂")
    assert beta[norm == 0].min() == pytest.approx(0.131014**2 / 0.01 + 1, abs=0.1)


def test_components_are_lines_through_0(learned):
    data, ways = learned
    figure = figures.draw_components(data, ways, budget=5)
    above = figure.axes[1]
    assert above.get_title() == "β = 5, step 5"
    ends = np.array([line.get_xydata()[1] for line in above.lines])
    starts = np.array([line.get_xydata()[0] for line in above.lines])
    assert starts == pytest.approx(-ends)
    assert ends[:3] == pytest.approx(3 * data.weights.T)
    assert ends[3:] == pytest.approx(3 * ways[5.0].weights[5].T)
    assert lines(figure.axes[3], "w₃")[1] == pytest.approx(np.linspace(3, 0, 11))


def test_an_animation_goes_from_true_to_learned_components(learned, tmp_path):
    data, ways = learned
    animation = figures.animate_components(data, ways, frames=6)
    assert len(animation.frames) == 6 + 2
    first, *_, last = (np.asarray(frame).astype(int) for frame in animation.frames)
    left, right = np.split(np.abs(first - last)[40:].sum(2), 2, axis=1)
    assert left.sum() == 0  # but for the title, above
    assert (right > 100).sum() > 100
    animation.save(tmp_path / "ica.gif")
    with Image.open(tmp_path / "ica.gif") as file:
        assert file.n_frames >= 6
