"""References to user-defined objects in files."""

import sys
from types import ModuleType

import pytest

from tests.raising import about
from unweave.data.catalog import find_loader
from unweave.data.dataset import Dataset
from unweave.data.origin import check_origin
from unweave.io import extensions
from unweave.io.extensions import (
    ExtensionError,
    allow,
    import_plugin,
    is_reference,
    module_file,
    reference_to,
    references_in,
    resolve,
)
from unweave.metrics import find_metric


@pytest.fixture
def module(monkeypatch):
    """An imported user module."""
    made = ModuleType("a_users_module")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.fixture
def named(monkeypatch):
    """Allowed modules, empty as at the start of a process."""
    monkeypatch.setattr(extensions, "_allowed", {})
    monkeypatch.setattr(extensions, "_used", {})


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":",
        "a:",
        ":A",
        "a.:A",
        ".a:A",
        "a:A.b",
        "a b:C",
        "a:1",
        "a/b:C",
        "a:B:C",
        "é:" + "x" * 200,
    ],
)
def test_other_names_are_not_references(name):
    assert not is_reference(name)
    with pytest.raises(ExtensionError):
        resolve(name, "metric", lambda thing: True)


@pytest.mark.parametrize("name", [7, None, ["a:B"], b"a:B"])
def test_references_are_text(name):
    assert not is_reference(name)


def test_modules_that_were_not_named_are_not_imported(tmp_path, monkeypatch, named):
    (tmp_path / "never_named.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ExtensionError) as caught:
        resolve("never_named:X", "metric", lambda thing: True)
    assert caught.value.reference == "never_named:X"
    assert "--plugin never_named" in str(caught.value)
    assert "never_named" not in sys.modules


def test_submodules_of_named_packages_are_imported(tmp_path, monkeypatch, named):
    (tmp_path / "a_package").mkdir()
    (tmp_path / "a_package" / "__init__.py").write_text("")
    (tmp_path / "a_package" / "part.py").write_text("X = 5")
    monkeypatch.syspath_prepend(tmp_path)
    allow("a_package")
    assert resolve("a_package.part:X", "number", lambda thing: thing == 5) == 5
    assert module_file("a_package.part") == tmp_path / "a_package"
    for name in ("a_package.part", "a_package"):
        del sys.modules[name]


def test_using_a_module_allows_no_others_of_its_package(module, tmp_path, monkeypatch, named):
    module.X = 5
    resolve("a_users_module:X", "number", lambda thing: thing == 5)
    with pytest.raises(ExtensionError, check=about("a_users_module.more:X")):
        resolve("a_users_module.more:X", "number", lambda thing: True)


def test_broken_plugins_are_named(tmp_path, monkeypatch, named):
    (tmp_path / "broken_plugin.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    for plugin in ("broken_plugin", "no_such_plugin", "..", "a/b"):
        with pytest.raises(ExtensionError) as caught:
            import_plugin(plugin)
        assert caught.value.reference == plugin


def test_lazy_attributes_are_not_looked_up(module):
    def never(name):
        raise AssertionError(name)

    module.__getattr__ = never
    with pytest.raises(ExtensionError):
        resolve("a_users_module:X", "metric", lambda thing: thing is not None)


def reads(path: str) -> None:
    raise AssertionError("called because a file names it")


def quoted(step: int = 1) -> "Dataset":
    raise AssertionError("not called")


def unreadable(step: int = 1) -> "NoSuchThing":  # noqa: F821
    raise AssertionError("not called")


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:call",
        "shutil:rmtree",
        "builtins:print",
        "unweave.data.custom:from_path",
        "a_users_module:reads",
        "a_users_module:unreadable",
        "a_users_module:load",
        "a_users_module:Dataset",
    ],
)
def test_data_sets_are_functions_annotated_with_dataset(name, module):
    from unweave.data import load

    module.reads, module.unreadable, module.load, module.Dataset = reads, unreadable, load, Dataset
    with pytest.raises(ExtensionError):
        check_origin([["load", name, {}]])


def test_annotations_may_be_quoted(module):
    module.quoted = quoted
    assert find_loader("a_users_module:quoted") is quoted
    check_origin([["load", "a_users_module:quoted", {"step": 2}]])
    with pytest.raises(Exception, match="step"):
        check_origin([["load", "a_users_module:quoted", {"step": "/etc"}]])


@pytest.mark.parametrize("name", ["os:system", "unweave.metrics:MIG", "unweave.metrics.mig:MIG"])
def test_metrics_are_metrics(name):
    with pytest.raises(ExtensionError):
        find_metric(name)


def test_references_of_objects(module):
    module.thing = object()
    assert reference_to(module.thing, "a_users_module") == "a_users_module:thing"
    assert reference_to(module.thing) == "a_users_module:thing"
    assert reference_to(object()) is None


def test_references_in_plain_data():
    plain = {"methods": {"a.b:C": {"beta": [1, 4]}}, "metrics": ["mig", "d:E"], "data": "x.npy"}
    assert list(references_in(plain)) == ["a.b:C", "d:E"]
