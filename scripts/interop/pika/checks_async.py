"""Asynchronous connections (SelectConnection): the same broker seen through callbacks.

A check is a generator: it yields a function that starts an operation and gets a `done` callback;
the value passed to `done` becomes the value of the yield. A step may take STEP_SECONDS_MAX.
"""
import pika

from harness import Failed, check, equal, holds, parameters

STEP_SECONDS_MAX = 10


class Driver:
    """Runs one generator over one SelectConnection."""

    def __init__(self, generator, **overrides):
        self.generator = generator
        self.error = None
        self.finished = False
        self.timer = None
        self.closing = None
        self.on_close = lambda reason: self.fail("the connection closed: %r" % reason)
        self.connection = pika.SelectConnection(
            parameters(**overrides), on_open_callback=lambda connection: self.start(),
            on_open_error_callback=lambda connection, error: self.fail("did not open: %r" % error),
            on_close_callback=self.closed)

    def run(self):
        self.timer = self.connection.ioloop.call_later(STEP_SECONDS_MAX, lambda: self.fail("timed out"))
        self.connection.ioloop.start()
        if self.error:
            raise self.error

    def start(self):
        self.script = self.generator(self)
        self.resume(None)

    def resume(self, value):
        """Hands a step's result to the script and starts its next step."""
        if self.finished:
            return
        self.connection.ioloop.remove_timeout(self.timer)
        self.timer = self.connection.ioloop.call_later(STEP_SECONDS_MAX, lambda: self.fail("timed out"))
        try:
            step = self.script.send(value)
            step(lambda *arguments: self.connection.ioloop.call_later(
                0, lambda: self.resume(arguments[0] if arguments else None)))
        except StopIteration:
            self.stop()
        except Exception as error:
            self.error = error
            self.stop()

    def fail(self, text):
        self.error = self.error or Failed(text)
        self.stop()

    def stop(self):
        if self.finished:
            return
        self.finished = True
        self.connection.ioloop.remove_timeout(self.timer)
        if self.connection.is_open:
            self.connection.close()
            self.timer = self.connection.ioloop.call_later(STEP_SECONDS_MAX, self.connection.ioloop.stop)
        else:
            self.connection.ioloop.stop()

    def closed(self, connection, reason):
        if self.finished:
            connection.ioloop.stop()
        else:
            self.on_close(reason)

    def channel(self):
        """A step: opens a channel."""
        return lambda done: self.connection.channel(on_open_callback=done)


def asynchronous(name, **overrides):
    """Registers a generator function (driver, context) as a check."""

    def register(function):
        check("async: " + name)(lambda ctx: Driver(lambda driver: function(driver, ctx), **overrides).run())
        return function

    return register


@asynchronous("declare, publish, get, delete")
def basics(driver, ctx):
    channel = yield driver.channel()
    queue = ctx.name()
    answer = yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    equal("queue", answer.method.queue, queue)
    channel.basic_publish("", queue, b"hello")
    body = yield lambda done: channel.basic_get(queue, lambda ch, method, properties, body: done(body), auto_ack=True)
    equal("body", body, b"hello")
    answer = yield lambda done: channel.queue_delete(queue, callback=done)
    equal("deleted", answer.method.message_count, 0)


@asynchronous("exchange declare, bind, unbind, delete")
def exchanges(driver, ctx):
    channel = yield driver.channel()
    one, two, queue = ctx.name(), ctx.name(), ctx.name()
    yield lambda done: channel.exchange_declare(one, "topic", auto_delete=True, callback=done)
    yield lambda done: channel.exchange_declare(two, "fanout", auto_delete=True, callback=done)
    yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    yield lambda done: channel.exchange_bind(two, one, "a.#", callback=done)
    yield lambda done: channel.queue_bind(queue, two, callback=done)
    channel.basic_publish(one, "a.b", b"1")
    yield lambda done: channel.exchange_unbind(two, one, "a.#", callback=done)
    answer = yield lambda done: channel.queue_purge(queue, callback=done)
    equal("purged", answer.method.message_count, 1)
    yield lambda done: channel.queue_unbind(queue, two, callback=done)
    yield lambda done: channel.exchange_delete(two, callback=done)


@asynchronous("five hundred pipelined confirms: each tag acked exactly once")
def confirms(driver, ctx):
    count = 500
    channel = yield driver.channel()
    queue = ctx.name()
    yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    outstanding = set(range(1, count + 1))
    problems = []
    waiting = []

    def on_confirm(frame):
        method = frame.method
        if not isinstance(method, pika.spec.Basic.Ack):
            problems.append(repr(method))
        tags = {tag for tag in outstanding if tag <= method.delivery_tag} if method.multiple else {method.delivery_tag}
        if not tags or not tags <= outstanding:
            problems.append("tag %d (multiple %s) acked again" % (method.delivery_tag, method.multiple))
        outstanding.difference_update(tags)
        if not outstanding and waiting:
            waiting.pop()()

    yield lambda done: channel.confirm_delivery(on_confirm, callback=done)
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=1 + number % 2))
    yield waiting.append
    equal("problems", problems, [])
    answer = yield lambda done: channel.queue_declare(queue, passive=True, callback=done)
    equal("ready", answer.method.message_count, count)


@asynchronous("consume in order, cancel")
def consume(driver, ctx):
    channel = yield driver.channel()
    queue, bodies, waiting = ctx.name(), [], []
    yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    yield lambda done: channel.basic_qos(prefetch_count=10, callback=done)

    def deliver(ch, method, properties, body):
        bodies.append(int(body))
        ch.basic_ack(method.delivery_tag)
        if len(bodies) == 300:
            waiting.pop()()

    for number in range(300):
        channel.basic_publish("", queue, str(number))

    def start(done):
        waiting.append(done)
        channel.basic_consume(queue, deliver, consumer_tag="tag")

    yield start
    equal("bodies", bodies, list(range(300)))
    answer = yield lambda done: channel.basic_cancel("tag", callback=done)
    equal("tag", answer.method.consumer_tag, "tag")


@asynchronous("the server cancels the consumer of a deleted queue")
def cancel_notify(driver, ctx):
    channel = yield driver.channel()
    other = yield driver.channel()
    queue = ctx.name()
    yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    yield lambda done: channel.basic_consume(queue, print, consumer_tag="tag", callback=done)

    def delete(done):
        channel.add_on_cancel_callback(done)
        other.queue_delete(queue)

    frame = yield delete
    equal("tag", frame.method.consumer_tag, "tag")
    holds("an open channel", channel.is_open)


@asynchronous("mandatory return comes before its confirm")
def returns(driver, ctx):
    channel = yield driver.channel()
    events, waiting = [], []

    def on_confirm(frame):
        events.append("ack")
        waiting.pop()()

    channel.add_on_return_callback(lambda ch, method, properties, body: events.append(method.reply_code))
    yield lambda done: channel.confirm_delivery(on_confirm, callback=done)

    def send(done):
        waiting.append(done)
        channel.basic_publish("", ctx.name(), b"x", mandatory=True)

    yield send
    equal("events", events, [312, "ack"])


@asynchronous("a channel error reaches its callback; the other channel lives")
def channel_error(driver, ctx):
    victim = yield driver.channel()
    other = yield driver.channel()

    def fail(done):
        victim.add_on_close_callback(lambda channel, reason: done(reason))
        victim.basic_publish(ctx.name(), "x", b"x")

    reason = yield fail
    equal("code", reason.reply_code, 404)
    answer = yield lambda done: other.queue_declare("", exclusive=True, callback=done)
    holds("a server-named queue", answer.method.queue.startswith("amq.gen-"), answer.method.queue)


@asynchronous("a connection error reaches its callback")
def connection_error(driver, ctx):
    channel = yield driver.channel()

    def fail(done):
        driver.on_close = done
        channel.exchange_declare(ctx.name(), "nonsense")

    reason = yield fail
    equal("code", reason.reply_code, 503)


@asynchronous("channel.flow on")
def flow(driver, ctx):
    channel = yield driver.channel()
    equal("active", (yield lambda done: channel.flow(True, callback=done)), True)


@asynchronous("tx: commit and rollback")
def tx(driver, ctx):
    channel = yield driver.channel()
    queue = ctx.name()
    yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    yield lambda done: channel.tx_select(callback=done)
    channel.basic_publish("", queue, b"1")
    yield lambda done: channel.tx_rollback(callback=done)
    channel.basic_publish("", queue, b"2")
    yield lambda done: channel.tx_commit(callback=done)
    answer = yield lambda done: channel.queue_purge(queue, callback=done)
    equal("committed", answer.method.message_count, 1)


@asynchronous("idle with heartbeat 1 s", heartbeat=1)
def heartbeat(driver, ctx):
    yield lambda done: driver.connection.ioloop.call_later(3.5, done)
    channel = yield driver.channel()
    holds("an open channel", channel.is_open)


@asynchronous("1 MiB with frame_max 4096, published and delivered", frame_max=4096)
def small_frames(driver, ctx):
    channel = yield driver.channel()
    queue, body = ctx.name(), bytes(range(256)) * 4096
    yield lambda done: channel.queue_declare(queue, exclusive=True, callback=done)
    channel.basic_publish("", queue, body)
    got = yield lambda done: channel.basic_consume(queue, lambda ch, method, properties, body: done(body), auto_ack=True)
    holds("the body unchanged", got == body, len(got))
