"""A worker of a study on Ray: an actor that trains and scores where it was started."""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.io.extensions import import_plugin
from unweave.io.writing import temporary_folder
from unweave.study.ledger import Ledger
from unweave.study.on_ray.far_ledger import FarLedger
from unweave.study.on_ray.places import Place
from unweave.study.remote import RemoteStore, is_url
from unweave.study.store import Store
from unweave.study.work import Work
from unweave.study.workers import Worker

__all__ = ["Hand", "Job"]


class Job(NamedTuple):
    """What every worker needs to know.

    Args:
        folder: The study's, or its URL.
        token: The name of a file in it, by which a worker sees that it is the same folder.
        options: Of `Work`.
        plugins: Modules that the study names, and where they are on the driver's machine.
    """

    folder: str
    token: str
    options: Mapping[str, Any]
    plugins: Mapping[str, str] = MappingProxyType({})


class Hand:
    """A worker: an actor of Ray that lives as long as there is something to do for it."""

    def work(self, mailbox: Any, worker: Worker, place: Place, job: Job) -> str | None:
        """Train and score; why that had to end, if before the study did."""
        ledger = cast(Ledger, FarLedger(mailbox, worker.name, place.name))
        try:
            for module, path in job.plugins.items():
                sys.path.append(path)  # after what Ray brought along
                import_plugin(module)
            with _store_there(job.folder, ledger) as store:
                if not store.sees(job.token):
                    return (
                        f"{place.name} does not see {store.place}; keep the study in a folder "
                        "that all nodes share, under the same path, or at a URL"
                    )
                self._work(store, worker, place, job)
        except InterruptedTrainingError:
            return None
        except UnweaveError as error:
            return str(error)
        return None

    def _work(self, store: Store, worker: Worker, place: Place, job: Job) -> None:
        far = cast(FarLedger, store.ledger)
        options = dict(job.options)
        options["device"] = "cuda" if place.gpus else "cpu"
        if options["scorers"] is None:
            options["scorers"] = place.scorers
        Work(store, worker=worker, stopping=lambda: far.stopping, table=False, **options).go()


@contextmanager
def _store_there(folder: str, ledger: Ledger) -> Iterator[Store]:
    """A study as a worker sees it; one at a URL in a folder that lives as long as the worker."""
    if not is_url(folder):
        yield Store(folder, ledger)
        return
    with temporary_folder(Path(tempfile.gettempdir()) / "unweave-study") as scratch:
        store = RemoteStore(folder, scratch, ledger)
        store.bring_study()
        yield store
