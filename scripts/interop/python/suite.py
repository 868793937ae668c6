"""What the Python suites share: registration of checks, expectations, time limits, names, results.

A check is a function decorated with @check("what it proves"); it gets a context of its suite. Each runs under
SIGALRM, so nothing can hang.
"""
import os
import re
import signal
import sys
import time
import uuid

URL = os.environ.get("AMQP_URL") or "amqp://guest:guest@127.0.0.1:5672/"
WAIT_SECONDS_MAX = 10  # one wait for a condition inside a check
_CHECKS = []


class Failed(Exception):
    """An expectation that did not hold."""


class TimedOut(Exception):
    """A check that ran longer than it may."""


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


def until(what, condition, between):
    """Asks again and again until condition() is true, and returns that; between() passes the time."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > deadline:
            raise Failed("timed out waiting for " + what)
        between()


class Context:
    """What a check works with: a connection and a channel opened on demand, unique names, what to clean up.

    A suite's own context says how to open_connection(**options) and to close_connection(connection), and in
    clean(actions) how each action gets a channel.
    """

    suite = ""

    def __init__(self):
        self.prefix = "interop-%s-%s" % (self.suite, uuid.uuid4().hex[:12])
        self._connections = []
        self._cleanup = []
        self._count = 0
        self._connection = None
        self._channel = None

    def name(self, suffix=""):
        """A name nobody else uses."""
        self._count += 1
        return "%s-%d%s" % (self.prefix, self._count, suffix)

    def connect(self, **options):
        """A further connection, closed after the check."""
        connection = self.open_connection(**options)
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

    def later(self, action):
        """Registers a clean-up action; it gets a fresh channel."""
        self._cleanup.append(action)

    def close(self):
        """Closes everything that the check opened, then cleans up."""
        for connection in self._connections:
            try:
                self.close_connection(connection)
            except Exception:  # the broker may be closing it at the same moment
                pass
        if self._cleanup:
            self.clean(self._cleanup)


def report(*fields):
    """Appends a line to the file that scores reads (scores/doc.go); without one, nothing."""
    path = os.environ.get("INTEROP_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as results:
            results.write("\t".join(re.sub(r"\s+", " ", field) for field in fields) + "\n")


def run(client, make_context, seconds_max):
    """Runs the checks whose name contains one of the command line's words (none: all), each for seconds_max at
    most; returns the exit status."""

    def alarm(signum, frame):
        raise TimedOut("longer than %d s" % seconds_max)

    signal.signal(signal.SIGALRM, alarm)
    words = sys.argv[1:]
    report("client", client)
    passed = failed = 0
    for name, function in _CHECKS:
        if words and not any(word in name for word in words):
            continue
        context = make_context()
        started = time.monotonic()
        signal.alarm(seconds_max)
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
            signal.alarm(seconds_max)
            try:
                context.close()
            except Exception as error:
                print("     clean-up after %s: %r" % (name, error))
            signal.alarm(0)
        sys.stdout.flush()
    report("done")
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1
