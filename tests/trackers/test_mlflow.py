"""Runs of MLflow in a database, read by its client."""

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from tests.trackers.fleets import BETAS, FIRST, SECOND
from unweave.trackers import MLflow


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'runs.db'}"


@pytest.mark.parametrize("result", ["trained", None])
def test_a_run_has_the_values_and_settings_of_all_models(track, uri, result):
    name = f"run-{result}"
    expected = track(MLflow(uri, "sprites", name), result)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("sprites")
    (run,) = client.search_runs([experiment.experiment_id], f"attributes.run_name = '{name}'")
    assert run.info.status == ("KILLED" if result is None else "FINISHED")
    metrics = {
        f"{name}/{series}": values
        for series, named in expected.items()
        for name, values in named.items()
    }
    assert set(run.data.metrics) == set(metrics)
    for name, values in metrics.items():
        history = client.get_metric_history(run.info.run_id, name)
        assert [(one.step, one.value) for one in history] == values
    assert set(run.data.params) == {*FIRST, *SECOND}
    assert run.data.params[FIRST[2]] == f"run={BETAS[2].hash}, method=beta_vae, seed=0, beta=4.0"


def test_more_models_than_one_request_allows(uri):
    tracker = MLflow(uri, "many")
    models = {f"model-{k}": {"seed": k} for k in range(201)}
    tracker.open(models)
    tracker.log(100, {series: {f"term_{k}": k for k in range(5)} for series in models})
    tracker.close(finished=True)
    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("many").experiment_id])
    assert len(run.data.params) == 201
    assert len(run.data.metrics) == 1005


def test_an_error_of_the_writing_thread_is_raised_at_the_next_call(uri):
    tracker = MLflow(uri, "broken")
    tracker.open({"model": {"seed": 0}})
    tracker.log(100, {"model": {"not*allowed": 1.0}})
    with pytest.raises(MlflowException):
        tracker.log(200, {"model": {"loss": 1.0}})
    tracker.log(300, {"model": {"not*allowed": 1.0}})
    with pytest.raises(MlflowException):
        tracker.close(finished=True)
