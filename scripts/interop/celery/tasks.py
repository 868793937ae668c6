"""The tasks of the suite's workers, configured by INTEROP_PREFIX, INTEROP_BACKEND, INTEROP_WORK and INTEROP_LATE.

The worker and the checks import it with the same settings, so that they speak of the same queues. Tasks
named in INTEROP_WORK (a directory) leave a line per run there, which shows order and repetition.
"""
import os
import signal
import time

import celery
import kombu

PREFIX = os.environ["INTEROP_PREFIX"]
WORK = os.environ["INTEROP_WORK"]


def make_app(suffix, backend, late):
    """An app with a queue, a control exchange and an event exchange of its own."""
    name = PREFIX + suffix
    app = celery.Celery(name, broker=os.environ.get("AMQP_URL") or "amqp://guest:guest@127.0.0.1:5672/", backend=backend)
    app.conf.update(
        task_queues=[kombu.Queue(name, kombu.Exchange(name, "direct"), routing_key=name)],
        task_default_queue=name,
        task_default_exchange=name,
        task_default_routing_key=name,
        control_exchange=name + "-control",
        event_exchange=name + "-events",
        result_exchange=name + "-results",
        task_acks_late=late,
        task_reject_on_worker_lost=late,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=True,
        worker_hijack_root_logger=False,
        broker_connection_timeout=10,
        broker_connection_max_retries=1,
        result_expires=300,
        task_track_started=True,
    )
    return app


# Results over rpc:// come back as messages. Chords need a backend that keeps results, and the one that needs no
# server is the file system; there celery polls with a task that retries itself every second (chord_unlock).
app_rpc = make_app("-rpc", "rpc://", False)
app_files = make_app("-files", "file://" + os.path.join(WORK, "results"), True)
app = app_files if os.environ.get("INTEROP_APP") == "files" else app_rpc


def _note(name, text):
    with open(os.path.join(WORK, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def lines(name):
    """What tasks noted under a name."""
    try:
        with open(os.path.join(WORK, name), encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


@celery.shared_task(name="add")
def add(x, y):
    return x + y


@celery.shared_task(name="total")
def total(numbers):
    return sum(numbers)


@celery.shared_task(name="fail")
def fail(text):
    raise ValueError(text)


@celery.shared_task(name="now")
def now():
    return time.time()


@celery.shared_task(name="note", ignore_result=True)
def note(name, text):
    _note(name, text)


@celery.shared_task(name="hold")
def hold(name):
    """Notes that it runs, and ends when the file NAME.go appears."""
    _note(name, "running")
    while not os.path.exists(os.path.join(WORK, name + ".go")):
        time.sleep(0.02)
    return "held"


@celery.shared_task(name="flaky", bind=True, max_retries=2)
def flaky(self, failures):
    """Fails so many times, each time with a retry a tenth of a second later."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.1, exc=ValueError("attempt %d" % self.request.retries))
    return self.request.retries


@celery.shared_task(name="die_once", bind=True)
def die_once(self, name):
    """Kills its process at the first run, and tells at the second how it was delivered."""
    _note(name, "run")
    if len(lines(name)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return bool(self.request.delivery_info.get("redelivered"))


@celery.shared_task(name="info", bind=True)
def info(self):
    return {key: self.request.delivery_info.get(key) for key in ("priority", "routing_key", "exchange")}
