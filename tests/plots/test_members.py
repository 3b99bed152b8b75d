"""Traversals of all members of an ensemble, side by side."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.models.images import ShapeError
from unweave.plots.drawn_codes import DrawnCodes
from unweave.plots.members import line_of, members
from unweave.plots.sheet import FADE
from unweave.plots.traversals import draw_prior

ORDER = [1, 3, 0, 2]
VALUES = [-2.0, 0.0, 2.0]


def test_rows_show_matching_latents_with_matching_signs(ensemble, sprites, shown):
    model, ways = ensemble
    sheet = members(model, sprites, index=5, columns=3, reach=2.0)
    assert [len(row) for row in sheet.boxes] == [6, 9, 9, 9, 9]
    image = sprites.images([5])
    for member, way in enumerate(ways):
        mean = model.encode(image, member=member)[0]
        np.testing.assert_array_equal(sheet.part(0, 2 * member), shown(image)[0])
        decoded = shown(model.decode(mean, member=member))[0]
        np.testing.assert_array_equal(sheet.part(0, 2 * member + 1), decoded)
        for row, latent in enumerate(ORDER[:3], start=1):
            (own,) = np.flatnonzero(way[latent])
            codes = np.repeat(mean, 3, axis=0)
            codes[:, own] = way[latent, own] * np.array(VALUES)
            expected = shown(model.decode(codes, member=member))
            assert (expected[0] != expected[2]).any()
            for column in range(3):
                part = sheet.part(row, 3 * member + column)
                np.testing.assert_array_equal(part, expected[column])


def test_unused_latents_are_grey_or_hidden(ensemble, sprites, shown):
    model, _ = ensemble
    sheet = members(model, sprites, index=5, columns=3, reach=2.0)
    mean = model.encode(sprites.images([5]))[0]
    codes = np.repeat(mean, 3, axis=0)
    codes[:, 2] = VALUES
    expected = (1 - FADE) * shown(model.decode(codes)).astype(float) + FADE * 255
    for column in range(3):
        np.testing.assert_allclose(sheet.part(4, column), expected[column], atol=1)
    hidden = members(model, sprites, index=5, columns=3, reach=2.0, inactive="hide")
    assert [len(row) for row in hidden.boxes] == [6, 9, 9, 9]


def test_labels_name_latents_and_mark_disagreement(ensemble, sprites):
    model, _ = ensemble
    aligned = uw.select.aligned_posteriors(model, sprites)
    drawn = [DrawnCodes(*each) for each in zip(aligned.means, aligned.logvars, strict=True)]
    each = [model.members[k] for k in range(3)]

    def line(latent):
        found = line_of(each, aligned, drawn, np.zeros((3, 4), np.float32), latent, [VALUES] * 3)
        return [(s.name, s.note, s.faint) for s in found.strips], found.end, found.striking

    strips, end, striking = line(1)
    assert [strip[:2] for strip in strips] == [
        ("latent 1", ""),
        ("latent 0", "flipped"),
        ("latent 1", ""),
    ]
    assert (end, striking) == (("1.00", ""), False)
    assert line(2)[0] == [
        ("latent 2", "", True),
        ("latent 2", "", True),
        ("latent 0", "flipped", True),
    ]
    assert line(2)[1:] == (("unused", ""), False)
    number = f"{aligned.agreement[3]:.2f}".replace("-", "−")
    assert line(3)[1:] == ((number, "members disagree"), True)


def test_from_the_prior_all_members_start_at_the_same_code(ensemble, sprites, shown):
    model, ways = ensemble
    sheet = members(model, sprites, prior="draw", seed=3, columns=3)
    code = draw_prior(model, 1, 3)
    for member, way in enumerate(ways):
        decoded = shown(model.decode(code @ way, member=member))[0]
        np.testing.assert_array_equal(sheet.part(0, member), decoded)


def test_members_that_agree_show_the_same(ensemble, sprites):
    sheet = members(ensemble[0], sprites, prior="mean", columns=3)
    for row in (1, 3):  # latents 1 and 0
        for column in range(3):
            first = sheet.part(row, column).astype(int)
            for member in (1, 2):
                part = sheet.part(row, 3 * member + column)
                np.testing.assert_allclose(part, first, atol=1)
        assert np.abs(sheet.part(row, 0) - sheet.part(row, 2).astype(int)).max() > 20


def test_rows_of_many_members_have_fewer_pictures_each(ensemble, sprites):
    assert [len(row) for row in members(ensemble[0], sprites).boxes] == [6] + [15] * 4


def test_invalid_arguments_are_rejected(ensemble, model, sprites, grey):
    with pytest.raises(UnweaveError, match="beta_vae"):
        members(model, sprites)
    with pytest.raises(UnweaveError, check=about("inactive", "gone")):
        members(ensemble[0], sprites, inactive="gone")
    with pytest.raises(ShapeError):
        members(ensemble[0], grey)
    quick = {"steps": 0, "latents": 2, "architecture": "small_mlp", "progress": False}
    (ring,) = uw.train(uw.methods.VAEEnsemble(members=3, neighbours=1), sprites, **quick)
    with pytest.raises(UnweaveError, match="member 1"):
        members(ring, sprites)
    (raw,) = uw.train(uw.methods.VAEEnsemble(members=2), grey, **quick)
    for key, value in raw.parameters.items():
        raw.parameters[key][:] = 0 * value
    with pytest.raises(UnweaveError, check=about("inactive", "hide")):
        members(raw, grey, inactive="hide")
