"""Fixtures: a Ray cluster of several nodes on this machine, and a study for it."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

import unweave
from tests.study.on_ray.nodes import ENOUGH, STEPS, Nodes, weights
from unweave.study import Study, run
from unweave.study.on_ray import driver

QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three fleets of two models each, on images of 32 × 32 pixels."""
    folder = tmp_path_factory.mktemp("squares")
    images = np.zeros((16, 16, 32, 32), np.uint8)
    for row, column in np.ndindex(16, 16):
        images[row, column, row : row + 16, column : column + 16] = 255
    np.save(folder / "squares.npy", images.reshape(256, 32, 32))
    rows = [f"{row},{column}" for row, column in np.ndindex(16, 16)]
    (folder / "factors.csv").write_text("\n".join(["row,column", *rows]))
    squares = {"load": str(folder / "squares.npy"), "factors": str(folder / "factors.csv")}
    return Study(
        data=[squares],
        methods={
            "beta_vae": {"beta": [1, 4]},
            "beta_tc_vae": {"beta": [4, 8]},
            "dip_vae_i": {"lambda_od": [1, 5]},
        },
        steps=STEPS,
        metrics=["mig"],
        settings={"batch": 8},
    )


@pytest.fixture(scope="module")
def part(study):
    """One of its fleets, without metrics, which a further process would compute."""
    return replace(study, methods={"beta_vae": {"beta": [1, 4]}}, metrics=())


@pytest.fixture(scope="module")
def undisturbed(study, tmp_path_factory):
    """The weights after uninterrupted training in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(replace(study, metrics=()), folder, progress=False)
    return weights(folder)


@pytest.fixture(scope="module")
def cluster():
    """A head node without resources for tasks, so that nodes can be added and removed."""
    source = str(Path(unweave.__file__).parents[1])
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "num_gpus": 0,
            "object_store_memory": ENOUGH,
            "include_dashboard": False,
            "_system_config": QUICK,
        },
    )
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def all_nodes(cluster):
    """The nodes that tests of a module share; those that a test kills are replaced."""
    nodes = Nodes(cluster)
    yield nodes
    nodes.exactly(0)


@pytest.fixture
def nodes(all_nodes, monkeypatch):
    """Returns so many nodes, which are the only ones, and polls them often."""
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.5)
    return all_nodes.exactly
