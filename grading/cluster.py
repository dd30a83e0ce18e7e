"""Grading on the machines of a Dask cluster: `autograde --cluster ADDRESS`.

All that a submission needs travels to a worker, and its outcome comes back; only this process
reads the course and writes the gradebook. A worker that gets lost costs its submissions a new
start elsewhere. A submission whose workers get lost again and again is tried once more with
nothing beside it, and then waits for a person.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from grading.cluster_worker import Batch, Failed, own_kit
from grading.grade import Outcome, given_up
from grading.pace import PutOff, Shown
from grading.plain import one_line
from grading.reference import Reference
from grading.submission import Submission

CONNECT_SECONDS = 15
# A queue of Slurm or a cloud may take minutes to start a machine.
WORKER_SECONDS = 600
FIT_SECONDS = 120
LOST_SECONDS = 30  # without a word from the scheduler
LOOK_SECONDS = 2
LEAST_AHEAD = 32  # So that a cluster which grows with its work sees that there is some.
KINDS = ("tcp://", "tls://")
CARRY_ON = "Stop it, or mend it. What was stored stays; the same command carries on."

Prepare = Callable[[Submission], tuple[Mapping[str, Reference], Submission]]


class ClusterError(RuntimeError):
    """The cluster cannot be used; the message says why and what to do."""


class Cluster:
    """A connection to a scheduler whose workers were all found fit. Use it in a ``with`` block.

    Raises:
        ClusterError: It cannot be reached, it has no worker, or a worker must not grade.
    """

    def __init__(self, address: str, progress: Callable[[str], None]) -> None:
        self.address = address
        self._progress = progress
        self._leaving = contextlib.ExitStack()
        with contextlib.ExitStack() as on_failure:
            on_failure.enter_context(self._leaving)
            _refuse_without_dask()
            self._leaving.enter_context(_quiet())
            self.client = _connect(address)
            self._leaving.callback(self._close)
            self._wait_for_workers()
            self._refuse_unfit_workers()
            on_failure.pop_all()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leaving.close()

    def workers(self) -> dict[str, int]:
        """Return the workers' addresses, and how many submissions each grades at a time.

        Raises:
            ClusterError: The scheduler does not answer.
        """
        try:
            found: dict[str, int] = dict(self.client.sync(self._ask, callback_timeout=LOST_SECONDS))
        except Exception as error:  # Dask has many for a lost connection.
            raise self.lost(error) from error
        return found

    def lost(self, error: object = "") -> ClusterError:
        """Return what to say when the scheduler is gone."""
        return ClusterError(
            f"The scheduler {self.address} does not answer any more ({one_line(str(error))}). "
            "What was stored stays. Start it again, with its workers; the same command carries on."
        )

    async def _ask(self) -> Any:
        return await self.client.scheduler.ncores()

    def _wait_for_workers(self) -> None:
        end, told = time.monotonic() + WORKER_SECONDS, False
        while not self.workers():
            if time.monotonic() > end:
                raise ClusterError(
                    f"The scheduler {self.address} has had no worker for {WORKER_SECONDS} seconds. "
                    f"Start one on each machine: dask worker {self.address}"
                )
            if not told:
                self._progress(f"Waiting for a worker at {self.address}.")
                told = True
            time.sleep(LOOK_SECONDS)

    def _refuse_unfit_workers(self) -> None:
        """Ask each worker whether it may grade, before any work is sent."""
        workers = self.workers()
        asked = {
            address: self.client.submit(
                *_call("unfit", asdict(own_kit())),
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            for address in workers
        }
        end = time.monotonic() + FIT_SECONDS
        said = []
        for address, future in asked.items():
            try:
                flaws = future.result(timeout=max(0.1, end - time.monotonic()))
            except TimeoutError:
                flaws = [f"It did not answer in {FIT_SECONDS} seconds."]
            except Exception as error:  # It lacks our package, or has quite another version.
                flaws = [f"It cannot be asked ({type(error).__name__}: {one_line(str(error))})."]
            said += [f"- {address}: {flaw}" for flaw in flaws]
        if said:
            raise ClusterError(
                "These workers must not grade, so nothing was sent to any:\n"
                + "\n".join(said)
                + "\nInstall there what is installed here (pip install -r requirements.txt, in the "
                "same version of this repository), or stop them."
            )
        threads = sum(workers.values())
        self._progress(f"Grading on {len(workers)} workers, {threads} submissions at a time.")
        for host, count in Counter(urlsplit(address).hostname for address in workers).items():
            if count > 1:
                self._progress(
                    f"{count} workers share {host} and do not wait for each other: hidden tests of "
                    "one may run beside another's output that is shown. Better one with more "
                    "threads: dask worker --nworkers 1"
                )

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)


class ClusterCrew:
    """Has submissions graded by a cluster's workers.

    ``prepare`` reads a submission and finds its right values, in this process; ``begun`` gets the
    student's id when it is sent.
    """

    def __init__(
        self, cluster: Cluster, batch: Batch, prepare: Prepare, begun: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._batch = batch
        self._prepare = prepare
        self._begun = begun
        # It goes with each submission: what only workers hold would be lost with them.
        self._packed = batch.packed()
        self._executor = cluster.client.get_executor(pure=False)
        self._lock = threading.Lock()
        self._going: set[Future[bytes]] = set()
        self._suspects: list[tuple[Submission, Future[Outcome]]] = []
        self._next_look = 0.0
        self._without_workers = time.monotonic()
        self.size = max(1, sum(cluster.workers().values()))

    def __enter__(self) -> ClusterCrew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(Exception):
            self._executor.shutdown(wait=False)

    @property
    def ahead(self) -> int:
        """How many may be submitted before the first of them has come back."""
        return max(LEAST_AHEAD, 3 * self.size)

    def submit(
        self, submission: Submission, *, hurry: bool, before: Shown | None
    ) -> Future[Outcome]:
        """Send one to whichever worker is free first."""
        coming: Future[Outcome] = Future()
        self._send(submission, coming, before, hurry=hurry, alone=False)
        return coming

    def look(self) -> None:
        """Count the workers, and try a suspect when nothing else goes.

        Raises:
            ClusterError: The scheduler is lost, or has had no worker for too long.
        """
        now = time.monotonic()
        if now >= self._next_look:
            workers = self._cluster.workers()
            self.size = max(1, sum(workers.values()))
            if workers:
                self._without_workers = now
            elif now - self._without_workers > WORKER_SECONDS:
                raise ClusterError(
                    f"The scheduler {self._cluster.address} has had no worker for {WORKER_SECONDS} "
                    "seconds. What was stored stays. Start workers; the same command carries on."
                )
            self._next_look = time.monotonic() + LOOK_SECONDS
        with self._lock:
            suspect = self._suspects.pop(0) if self._suspects and not self._going else None
        if suspect is not None:
            self._send(*suspect, None, hurry=False, alone=True)

    def _send(
        self,
        submission: Submission,
        coming: Future[Outcome],
        before: Shown | None,
        *,
        hurry: bool,
        alone: bool,
    ) -> None:
        try:
            self._begun(submission.student_id)
            references, whole = self._prepare(submission)
            work = pickle.dumps((references, whole, before))
            name = f"grade-{uuid.uuid4().hex}"
            call = _call("grade_there", self._packed, work, hurry)
            sent = self._executor.submit(*call, key=name)
        except Exception as error:
            coming.set_exception(error)
            return
        with self._lock:
            self._going.add(sent)
        # What may be tried again is kept without its contents.
        again = replace(whole, notebooks={}, files={})
        sent.add_done_callback(lambda done: self._came(done, again, coming, alone))

    def _came(
        self, done: Future[bytes], submission: Submission, coming: Future[Outcome], alone: bool
    ) -> None:
        """Hand on what came back; of a submission whose workers got lost, think again."""
        from distributed.scheduler import KilledWorker

        with self._lock:
            self._going.discard(done)
        try:
            came = done.result()
        except CancelledError:
            coming.set_exception(self._cluster.lost("what was sent to it is cancelled"))
        except KilledWorker as error:
            if alone:
                coming.set_result(given_up(self._batch.assignment, submission, str(error)))
                return
            # Perhaps it was only beside the one that did it.
            with self._lock:
                self._suspects.append((submission, coming))
        except Exception as error:
            told = one_line(f"{type(error).__name__}: {error}")
            coming.set_exception(ClusterError(f"A worker cannot grade ({told}). {CARRY_ON}"))
        else:
            try:
                coming.set_result(_outcome(came))
            except Exception as error:
                coming.set_exception(error)


def _call(function: str, *arguments: object) -> tuple[object, ...]:
    """Return how a worker is told to call a function of `cluster_worker`: by its name alone.

    So a worker that has no such function raises an error, instead of failing to read its task.
    """
    where = 'import_module("grading.cluster_worker")'
    call = f'__import__("importlib").{where}.{function}(*arguments)'
    return eval, call, {"arguments": arguments}


def _outcome(came: bytes) -> Outcome:
    """Return what a worker made of a submission.

    Raises:
        ClusterError: The worker, which came later than those asked at the start, must not grade.
        RuntimeError: It could not be graded there.
        PutOff: It takes so long there that others go first.
    """
    outcome: Outcome | Failed | PutOff = pickle.loads(came)
    if isinstance(outcome, PutOff):
        raise outcome
    if not isinstance(outcome, Failed):
        return outcome
    if outcome.unfit:
        raise ClusterError(f"A worker that came later must not grade. {outcome.reason} {CARRY_ON}")
    raise RuntimeError(outcome.reason)


def _refuse_without_dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ClusterError(
            f"--cluster needs Dask's distributed ({error}); install it: pip install -r "
            "requirements.txt, or pip install 'mha-course[cluster]'"
        ) from error


def _connect(address: str) -> Any:
    if not address.startswith(KINDS):
        raise ClusterError(
            f"{address!r} is no address of a Dask scheduler; give tcp://HOST:PORT or "
            "tls://HOST:PORT, as `dask scheduler` prints it"
        )
    from distributed import Client

    try:
        return Client(  # type: ignore[no-untyped-call]
            address, timeout=CONNECT_SECONDS, set_as_default=False, name="grading"
        )
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ClusterError(
            f"No Dask scheduler could be reached at {address} ({one_line(str(error))}). Is it "
            "running, and is this its address? For tls:// its certificates have to be in Dask's "
            "configuration (distributed.comm.tls)."
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep back Dask's own pages about lost connections: what matters is said here."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
