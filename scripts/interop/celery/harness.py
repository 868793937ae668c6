"""Check runner for the celery suite: registration, expectations, time limits, unique names.

A check is a function decorated with @check("what it proves"); it gets a Context. Each runs under SIGALRM, so
nothing can hang.
"""
import os
import re
import signal
import sys
import time
import uuid

import celery
import kombu

URL = os.environ.get("AMQP_URL") or "amqp://guest:guest@127.0.0.1:5672/"
CHECK_SECONDS_MAX = 20  # one check; the suite as a whole stays under a minute
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


def raises(kind, text, action):
    """Runs action, which must raise this exception with a text that contains `text`."""
    try:
        got = action()
    except kind as error:
        holds("a text containing %r" % text, text in str(error), str(error))
        return
    except Exception as error:  # any other end is a failed expectation, shown with its type
        raise Failed("expected %s, got %r" % (kind.__name__, error)) from error
    raise Failed("expected %s, but the call returned %r" % (kind.__name__, got))


def until(what, condition):
    """Asks again and again until condition() is true, and returns that."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > deadline:
            raise Failed("timed out waiting for " + what)
        time.sleep(0.01)


class Context:
    """What a check works with: a connection and a channel opened on demand, unique names."""

    def __init__(self):
        self.prefix = "interop-celery-" + uuid.uuid4().hex[:12]
        self._connections = []
        self._cleanup = []
        self._count = 0
        self._connection = None
        self._channel = None

    def name(self):
        """A name nobody else uses."""
        self._count += 1
        return "%s-%d" % (self.prefix, self._count)

    def connect(self, **options):
        """A further connection, closed after the check."""
        connection = kombu.Connection(URL, connect_timeout=WAIT_SECONDS_MAX, **options)
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

    def exchange(self, kind, **options):
        """Declares an exchange, deleted after the check."""
        exchange = kombu.Exchange(self.name(), kind, durable=False, **options)(self.channel)
        exchange.declare()
        self.later(lambda channel: exchange(channel).delete())
        return exchange

    def queue(self, exchange=None, routing_key=None, **options):
        """Declares a queue, bound if an exchange is given, deleted after the check."""
        options.setdefault("durable", False)
        name = self.name()
        queue = kombu.Queue(name, exchange or "", routing_key=name if routing_key is None else routing_key, **options)(self.channel)
        queue.declare()
        self.later(lambda channel: queue(channel).delete())
        return queue

    def later(self, action):
        """Registers a clean-up action; it gets a fresh channel."""
        self._cleanup.append(action)

    def send(self, queue, *bodies, **options):
        """Publishes to a queue through the default exchange and waits until they are there."""
        producer = kombu.Producer(self.channel)
        for body in bodies:
            producer.publish(body, routing_key=queue.name, **options)
        self.count(queue)

    def count(self, queue):
        """The number of ready messages."""
        return queue(self.channel).queue_declare(passive=True).message_count

    def drain(self, queue):
        """Gets and acks everything that is ready; returns the payloads."""
        payloads = []
        while True:
            message = queue(self.channel).get(no_ack=True)
            if message is None:
                return payloads
            payloads.append(message.payload)

    def close(self):
        """Closes everything that the check opened, then cleans up."""
        for connection in self._connections:
            try:
                connection.release()
            except Exception:  # the broker may be closing it at the same moment
                pass
        if self._cleanup:
            with kombu.Connection(URL) as connection:
                for action in self._cleanup:
                    action(connection.channel())


def report(*fields):
    """Appends a line to the file that scores reads (scores/doc.go); without one, nothing."""
    path = os.environ.get("INTEROP_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as results:
            results.write("\t".join(re.sub(r"\s+", " ", field) for field in fields) + "\n")


def run(words):
    """Runs the checks whose name contains one of the words (none: all); returns the exit status."""

    def alarm(signum, frame):
        raise TimedOut("longer than %d s" % CHECK_SECONDS_MAX)

    signal.signal(signal.SIGALRM, alarm)
    report("client", "celery %s kombu %s" % (celery.__version__, kombu.__version__))
    passed = failed = 0
    for name, function in _CHECKS:
        if words and not any(word in name for word in words):
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
