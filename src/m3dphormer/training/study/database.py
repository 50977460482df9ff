"""The database of a study, and which of the processes that share it are alive."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import optuna
import sqlalchemy
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import Trial, TrialState
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from m3dphormer.errors import UserError
from m3dphormer.training.study.trials import ALIVE

HEARTBEAT, GRACE = 5, 60  # seconds between heartbeats, and without one until a trial is given up
LOCK_WAIT = 60  # seconds that SQLite waits for another process
ATTEMPTS, PAUSE = 40, 0.25  # while another process makes the tables


def open_database(url: str) -> RDBStorage:
    """Open a database, and make its tables where there are none."""
    sqlite = url.startswith("sqlite")
    options = {"connect_args": {"timeout": LOCK_WAIT}} if sqlite else {}
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with quietly():
                storage = RDBStorage(
                    url, engine_kwargs=options, heartbeat_interval=HEARTBEAT, grace_period=GRACE
                )
            break
        except (ImportError, SQLAlchemyError, StorageInternalError) as error:
            reason = str(error).splitlines()[0]
            contested = isinstance(error, IntegrityError) or "already exists" in reason
            if not contested or attempt == ATTEMPTS:
                raise UserError(f"The study's database cannot be opened: {reason}") from None
            time.sleep(PAUSE)
    if sqlite:
        _one_at_a_time(storage.engine)
    return storage


def _one_at_a_time(engine: sqlalchemy.Engine) -> None:
    """Make SQLite lock where Optuna reads a row to change it: it has no SELECT ... FOR UPDATE.

    Without, two processes can take the same trial from the queue.
    """

    @sqlalchemy.event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def lock(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()


@contextmanager
def alive(storage: RDBStorage, trial: Trial) -> Iterator[None]:
    """Write heartbeats meanwhile."""
    storage.record_heartbeat(trial._trial_id)
    trial.set_user_attr(ALIVE, True)
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT):
            try:
                storage.record_heartbeat(trial._trial_id)
            except StorageInternalError:
                continue  # the database is busy; the next one will do

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def give_up_dead(study: optuna.Study) -> None:
    """Fail the running trials whose process is gone."""
    fail_stale_trials(study)
    oldest = datetime.now() - timedelta(seconds=GRACE)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        began = trial.datetime_start
        if ALIVE not in trial.user_attrs and began is not None and began < oldest:
            # Its process died before the first heartbeat.
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


@contextmanager
def quietly() -> Iterator[None]:
    """Without Optuna's log, and its warnings that something may change in a later version."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            warnings.filterwarnings("ignore", "Heartbeat of storage")
            yield
    finally:
        optuna.logging.set_verbosity(level)
