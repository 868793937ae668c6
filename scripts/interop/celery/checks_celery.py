"""Celery: tasks, results, ETA, retries, chords, acks_late, priorities, revoking, remote control, events.

Two workers: "rpc" with two processes and results over rpc://, acknowledging early; "files" with one process,
results in files, acknowledging late. See tasks.py.
"""
import os
import subprocess
import sys
import time

import celery
import kombu
from amqp.exceptions import NotFound
from celery.exceptions import TaskRevokedError

import tasks
from harness import URL, WAIT_SECONDS_MAX, Failed, check, equal, holds, raises, until

_WORKERS = {}
_APPS = {"rpc": tasks.app_rpc, "files": tasks.app_files}
_PROCESSES = {"rpc": 2, "files": 1}


def node(kind):
    """The name of a worker's node."""
    return "%s-%s@interop" % (tasks.PREFIX, kind)


def worker(kind):
    """The app of a worker, which is started, with its sibling, when it is needed first."""
    if not _WORKERS:
        for name in _APPS:
            environment = dict(os.environ, INTEROP_APP=name, C_FORCE_ROOT="1")
            with open(os.path.join(tasks.WORK, name + ".log"), "wb") as log:
                _WORKERS[name] = subprocess.Popen(
                    [sys.executable, "-B", "-m", "celery", "-A", "tasks", "worker", "--hostname", node(name), "--loglevel", "INFO",
                     "--concurrency", str(_PROCESSES[name]), "--without-gossip", "--without-mingle"],
                    env=environment, stdout=log, stderr=log)
    app = _APPS[kind]
    if not getattr(app, "interop_ready", False):
        until("the worker to answer", lambda: app.control.ping(destination=[node(kind)], timeout=0.5))
        app.interop_ready = True
    app.set_current()
    return app


def run_task(kind, name, *arguments, **options):
    """Sends a task to a worker."""
    return worker(kind).send_task(name, args=arguments, **options)


def remote(kind, command, **arguments):
    """A command to a worker over remote control; the worker must answer ok."""
    answers = worker(kind).control.broadcast(command, arguments=arguments, destination=[node(kind)], reply=True, timeout=WAIT_SECONDS_MAX)
    holds("ok to " + command, answers and "ok" in answers[0][node(kind)], answers)


def result(asynchronous):
    """Its result, within the time limit."""
    return asynchronous.get(timeout=WAIT_SECONDS_MAX, interval=0.02)


def stop():
    """Stops the workers and removes what they declared."""
    for process in _WORKERS.values():
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if not _WORKERS:
        return
    with kombu.Connection(URL) as connection:
        channel = connection.channel()
        for kind in _APPS:
            name = "%s-%s" % (tasks.PREFIX, kind)
            channel.queue_delete(name)
            for suffix in ("", "-control", "-events", "-results"):
                channel.exchange_delete(name + suffix)
            channel.exchange_delete("reply." + name + "-control")


def ready(ctx, name):
    """Ready messages of a queue."""
    return kombu.Queue(name)(ctx.channel).queue_declare(passive=True).message_count


@check("celery: a task and its result over rpc://")
def _(ctx):
    equal("sum", result(run_task("rpc", "add", 2, 3)), 5)


@check("celery: two hundred tasks, each with its result")
def _(ctx):
    running = [run_task("rpc", "add", i, i) for i in range(200)]
    equal("results", [result(one) for one in running], [2 * i for i in range(200)])


@check("celery: a result of 1 MiB")
def _(ctx):
    text = "x" * (1 << 20)
    equal("length", len(result(run_task("rpc", "add", text, text))), 2 << 20)


@check("celery: an exception comes back with its type and text")
def _(ctx):
    raises(ValueError, "on purpose", lambda: result(run_task("rpc", "fail", "on purpose")))


@check("celery: a task does not run before its countdown is over")
def _(ctx):
    sent = time.time()
    ran = result(run_task("rpc", "now", countdown=1))
    holds("a second at least", ran - sent >= 0.99, ran - sent)


@check("celery: an ETA task waits unacknowledged in the worker, and others pass it")
def _(ctx):
    run_task("rpc", "now", countdown=8)
    equal("sum", result(run_task("rpc", "add", 1, 1)), 2)
    holds("scheduled", until("the schedule", lambda: worker("rpc").control.inspect([node("rpc")]).scheduled()[node("rpc")]))


@check("celery: retries, each a new message with an ETA")
def _(ctx):
    equal("attempts", result(run_task("rpc", "flaky", 2)), 2)


@check("celery: retries that are used up end in the error")
def _(ctx):
    raises(ValueError, "attempt 2", lambda: result(run_task("rpc", "flaky", 100)))


@check("celery: a chain")
def _(ctx):
    app = worker("rpc")
    chain = celery.chain(app.signature("add", (1, 1)), app.signature("add", (10,)), app.signature("add", (100,)))
    equal("result", result(chain.apply_async()), 112)


@check("celery: a group")
def _(ctx):
    app = worker("rpc")
    equal("results", result(celery.group(app.signature("add", (i, 1)) for i in range(20)).apply_async()), list(range(1, 21)))


@check("celery: a link runs after success")
def _(ctx):
    app = worker("rpc")
    run_task("rpc", "add", 1, 2, link=app.signature("note", ("linked", "ran"), immutable=True))
    equal("noted", until("the link", lambda: tasks.lines("linked")), ["ran"])


@check("celery: an expired task is revoked, not run")
def _(ctx):
    raises(TaskRevokedError, "expired", lambda: result(run_task("rpc", "add", 1, 1, expires=-1)))


@check("celery: revoke of a task that waits for its ETA")
def _(ctx):
    waiting = run_task("rpc", "now", countdown=1.5)
    waiting.revoke()
    raises(TaskRevokedError, "revoked", lambda: result(waiting))


@check("celery: revoke with terminate ends a running task")
def _(ctx):
    running = run_task("rpc", "hold", "terminated")
    until("the task to run", lambda: tasks.lines("terminated"))
    running.revoke(terminate=True)
    raises(TaskRevokedError, "terminated", lambda: result(running))


@check("celery: a chord, its results in files")
def _(ctx):
    app = worker("files")
    chord = celery.chord([app.signature("add", (i, i)) for i in range(5)])(app.signature("total"))
    equal("total", result(chord), 20)


@check("celery: a chord with a task that fails is an error")
def _(ctx):
    app = worker("files")
    chord = celery.chord([app.signature("add", (1, 1)), app.signature("fail", ("in a chord",))])(app.signature("total"))
    raises(ValueError, "in a chord", lambda: result(chord))


@check("celery: acks_late, the process is killed, the task comes again redelivered")
def _(ctx):
    equal("redelivered", result(run_task("files", "die_once", "dead")), True)
    equal("runs", tasks.lines("dead"), ["run", "run"])


@check("celery: acks_late with prefetch 1 takes one task at a time")
def _(ctx):
    app = worker("files")
    running = [run_task("files", "hold", "held") for _ in range(4)]
    until("the first to run", lambda: tasks.lines("held"))
    until("three in the queue", lambda: ready(ctx, app.conf.task_default_queue) == 3)
    equal("running", len(tasks.lines("held")), 1)
    with open(os.path.join(tasks.WORK, "held.go"), "w", encoding="utf-8"):
        pass
    equal("results", [result(one) for one in running], ["held"] * 4)


@check("celery: priorities, the highest first")
def _(ctx):
    app = worker("files")
    name = tasks.PREFIX + "-priorities"
    queue = kombu.Queue(name, kombu.Exchange(name), routing_key=name, queue_arguments={"x-max-priority": 10})
    queue(ctx.channel).declare()
    ctx.later(lambda channel: (channel.queue_delete(name), channel.exchange_delete(name)))
    order = [3, 9, 1, 5, 9, 0]
    for number, priority in enumerate(order):
        app.send_task("note", args=("priorities", "%d-%d" % (priority, number)), queue=queue, priority=priority)
    remote("files", "add_consumer", queue=name, exchange=name, exchange_type="direct", routing_key=name, queue_arguments={"x-max-priority": 10})
    until("all to run", lambda: len(tasks.lines("priorities")) == len(order))
    remote("files", "cancel_consumer", queue=name)
    equal("order", tasks.lines("priorities"), ["9-1", "9-4", "5-3", "3-0", "1-2", "0-5"])


@check("celery: delivery information and priority of a message")
def _(ctx):
    app = worker("rpc")
    queue = app.conf.task_default_queue
    equal("info", result(run_task("rpc", "info", priority=4)), {"priority": 4, "routing_key": queue, "exchange": ""})


@check("celery: ping, over the fanout exchange of remote control")
def _(ctx):
    equal("pong", worker("rpc").control.ping(destination=[node("rpc")], timeout=WAIT_SECONDS_MAX), [{node("rpc"): {"ok": "pong"}}])


@check("celery: the control queue is there while the worker is, with its exchange")
def _(ctx):
    worker("rpc")
    control = tasks.PREFIX + "-rpc-control"
    ctx.channel.exchange_declare(control + ".pidbox", "fanout", passive=True)
    equal("consumers", ctx.channel.queue_declare(node("rpc") + "." + control + ".pidbox", passive=True).consumer_count, 1)


@check("celery: inspect tells queues, tasks and statistics")
def _(ctx):
    inspect = worker("rpc").control.inspect([node("rpc")], timeout=WAIT_SECONDS_MAX)
    equal("queues", [queue["name"] for queue in inspect.active_queues()[node("rpc")]], [tasks.PREFIX + "-rpc"])
    holds("the task add", "add" in inspect.registered()[node("rpc")])
    stats = inspect.stats()[node("rpc")]
    equal("prefetch", stats["prefetch_count"], 2)
    equal("transport", stats["broker"]["transport"], "amqp")


@check("celery: the pool grows, and the prefetch with it")
def _(ctx):
    control = worker("rpc").control
    remote("rpc", "pool_grow", n=1)
    equal("sum", result(run_task("rpc", "add", 1, 1)), 2)
    until("a prefetch of 3", lambda: control.inspect([node("rpc")], timeout=WAIT_SECONDS_MAX).stats()[node("rpc")]["prefetch_count"] == 3)
    remote("rpc", "pool_shrink", n=1)


@check("celery: a consumer added and cancelled by remote control")
def _(ctx):
    app = worker("rpc")
    name = ctx.name()
    remote("rpc", "add_consumer", queue=name)
    ctx.later(lambda channel: (channel.queue_delete(name), channel.exchange_delete(name)))
    equal("sum", result(app.send_task("add", args=(1, 1), queue=name)), 2)
    remote("rpc", "cancel_consumer", queue=name)
    until("no consumer", lambda: ctx.channel.queue_declare(name, passive=True).consumer_count == 0)
    app.send_task("add", args=(1, 1), queue=name)
    until("a task that nobody takes", lambda: ready(ctx, name) == 1)


@check("celery: a rate limit is set over remote control")
def _(ctx):
    remote("rpc", "rate_limit", task_name="add", rate_limit="100/s")
    equal("sum", result(run_task("rpc", "add", 1, 1)), 2)
    remote("rpc", "rate_limit", task_name="add", rate_limit="0")


@check("celery: events of a task, in order, over the topic exchange")
def _(ctx):
    app = worker("rpc")
    heard = []
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": lambda event: heard.append((event["type"], event.get("uuid")))})
        with kombu.Consumer(connection.channel(), [receiver.queue], callbacks=[receiver._receive], no_ack=True, accept=receiver.accept):
            remote("rpc", "enable_events")
            task = run_task("rpc", "add", 1, 1)
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while ("task-succeeded", task.id) not in heard:
                if time.monotonic() > deadline:
                    raise Failed("timed out waiting for task-succeeded, heard %r" % heard)
                try:
                    connection.drain_events(timeout=0.5)
                except OSError:
                    continue
        equal("events", [kind for kind, identifier in heard if identifier == task.id], ["task-received", "task-started", "task-succeeded"])
        remote("rpc", "disable_events")


@check("celery: purge counts what it removes")
def _(ctx):
    app = worker("files")
    name = app.conf.task_default_queue
    remote("files", "cancel_consumer", queue=name)
    until("no consumer", lambda: ctx.channel.queue_declare(name, passive=True).consumer_count == 0)  # it answers first
    for _ in range(3):
        run_task("files", "add", 1, 1)
    until("three in the queue", lambda: ready(ctx, name) == 3)
    equal("purged", app.control.purge(), 3)
    remote("files", "add_consumer", queue=name, exchange=name, exchange_type="direct", routing_key=name)
    equal("sum", result(run_task("files", "add", 1, 1)), 2)


@check("celery: shutdown by remote control ends the worker and its control queue, and leaves its tasks")
def _(ctx):
    app = worker("rpc")
    app.control.shutdown(destination=[node("rpc")])
    equal("status", _WORKERS["rpc"].wait(WAIT_SECONDS_MAX), 0)
    control = "%s.%s-rpc-control.pidbox" % (node("rpc"), tasks.PREFIX)

    def gone():
        channel = ctx.connection.channel()
        try:
            channel.queue_declare(control, passive=True)
        except NotFound:
            return True
        channel.close()
        return False

    until("the control queue to go", gone)
    app.send_task("add", args=(1, 1))
    until("the task to stay", lambda: ready(ctx, app.conf.task_default_queue) == 1)
