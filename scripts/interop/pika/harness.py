"""Check runner for the pika suite: registration, expectations, time limits, unique names.

A check is a function decorated with @check("what it proves"). It gets a Context, whose connections and
queues are cleaned up afterwards. Each check runs under SIGALRM, so nothing can hang.
"""
import os
import re
import signal
import sys
import time
import uuid

import pika
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

URL = os.environ.get("AMQP_URL") or "amqp://guest:guest@127.0.0.1:5672/"
CHECK_SECONDS_MAX = 15  # one check; the suite as a whole stays under a minute
WAIT_SECONDS_MAX = 10  # one wait for a condition inside a check
_CHECKS = []


class Failed(Exception):
    """An expectation that did not hold."""


class TimedOut(Exception):
    """A check that ran longer than CHECK_SECONDS_MAX."""


def check(name):
    """Registers a check under a name."""

    def register(function):
        _CHECKS.append((name, function))
        return function

    return register


def equal(what, got, expected):
    """Fails unless got == expected."""
    if got != expected:
        raise Failed("%s: expected %r, got %r" % (what, expected, got))


def holds(what, condition, got=None):
    """Fails unless condition is true; got is shown."""
    if not condition:
        raise Failed("expected %s, got %r" % (what, got))


def closes_channel(code, text, action):
    """Runs action, which must end in a channel.close with this code and a text containing `text`."""
    _closes(ChannelClosedByBroker, code, text, action)


def closes_connection(code, text, action):
    """Runs action, which must end in a connection.close with this code and a text containing `text`."""
    _closes(ConnectionClosedByBroker, code, text, action)


def _closes(kind, code, text, action):
    try:
        got = action()
    except kind as error:
        equal("reply code", error.reply_code, code)
        holds("a reply text containing %r" % text, text in error.reply_text, error.reply_text)
        return
    except Exception as error:  # any other end is a failed expectation, shown with its type
        raise Failed("expected %s %d, got %r" % (kind.__name__, code, error)) from error
    raise Failed("expected %s %d, but the call returned %r" % (kind.__name__, code, got))


def parameters(**overrides):
    """URLParameters of $AMQP_URL with attributes replaced, one connection attempt."""
    result = pika.URLParameters(URL)
    result.connection_attempts = 1
    result.socket_timeout = WAIT_SECONDS_MAX
    result.stack_timeout = WAIT_SECONDS_MAX
    for name, value in overrides.items():
        setattr(result, name, value)
    return result


class Context:
    """What a check works with: a lazily opened connection and channel, and unique names."""

    def __init__(self):
        self.prefix = "interop-pika-" + uuid.uuid4().hex[:12]
        self._connections = []
        self._cleanup = []
        self._count = 0
        self._connection = None
        self._channel = None

    def name(self, suffix=""):
        """A name nobody else uses."""
        self._count += 1
        return "%s-%d%s" % (self.prefix, self._count, suffix)

    def connect(self, **overrides):
        """A further connection, closed after the check."""
        connection = pika.BlockingConnection(parameters(**overrides))
        self._connections.append(connection)
        return connection

    @property
    def connection(self):
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    @property
    def channel(self):
        if self._channel is None:
            self._channel = self.connection.channel()
        return self._channel

    def queue(self, channel=None, **arguments):
        """Declares an exclusive queue with a unique name and returns the name."""
        name = self.name()
        arguments.setdefault("exclusive", True)
        (channel or self.channel).queue_declare(name, **arguments)
        if not arguments["exclusive"]:
            self.later(lambda clean: clean.queue_delete(name))
        return name

    def exchange(self, kind, **arguments):
        """Declares an exchange with a unique name, deleted after the check, and returns the name."""
        name = self.name()
        self.channel.exchange_declare(name, kind, **arguments)
        self.later(lambda clean: clean.exchange_delete(name))
        return name

    def later(self, action):
        """Registers a clean-up action; it gets a fresh channel."""
        self._cleanup.append(action)

    def close(self):
        """Closes everything that the check opened, then cleans up."""
        for connection in self._connections:
            try:
                if connection.is_open:
                    connection.close()
            except Exception:  # the broker may be closing it at the same moment
                pass
        if self._cleanup:
            connection = pika.BlockingConnection(parameters())
            for action in self._cleanup:
                try:
                    action(connection.channel())
                except ChannelClosedByBroker:
                    pass
            connection.close()


def publish(channel, queue, *bodies, exchange="", properties=None):
    """Publishes str or bytes bodies with the queue's name as routing key.

    On the default exchange it then asks for the queue, which must exist: the answer comes after the messages
    were queued, so that other channels can see them.
    """
    for body in bodies:
        channel.basic_publish(exchange, queue, body, properties)
    if exchange == "":
        ready(channel, queue)


def drain(channel, queue):
    """Gets and acks everything that is ready; returns the bodies."""
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def ready(channel, queue):
    """The number of ready messages."""
    return channel.queue_declare(queue, passive=True).method.message_count


def wait_until(what, condition, connection):
    """Processes the connection's events until condition() is true."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise Failed("timed out waiting for " + what)
        connection.process_data_events(time_limit=0.02)


def report(*fields):
    """Appends a line to the file that scores reads (scores/doc.go); without one, nothing."""
    path = os.environ.get("INTEROP_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as results:
            results.write("\t".join(re.sub(r"\s+", " ", field) for field in fields) + "\n")


def run():
    """Runs all registered checks; returns the exit status."""

    def alarm(signum, frame):
        raise TimedOut("longer than %d s" % CHECK_SECONDS_MAX)

    signal.signal(signal.SIGALRM, alarm)
    wanted = sys.argv[1:]
    report("client", "pika " + pika.__version__)
    passed = failed = 0
    for name, function in _CHECKS:
        if wanted and not any(word in name for word in wanted):
            continue
        context = Context()
        started = time.monotonic()
        signal.alarm(CHECK_SECONDS_MAX)
        try:
            function(context)
            passed += 1
            report("pass", name)
            if os.environ.get("VERBOSE"):
                print("ok   %s (%.2f s)" % (name, time.monotonic() - started))
        except Exception as error:
            failed += 1
            detail = str(error) if isinstance(error, Failed) else repr(error)
            report("fail", name, detail)
            print("FAIL %s: %s" % (name, detail))
        finally:
            signal.alarm(CHECK_SECONDS_MAX)
            try:
                context.close()
            except Exception as error:
                print("     clean-up after %s: %r" % (name, error))
            signal.alarm(0)
        sys.stdout.flush()
    report("done")
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1
