"""kombu over py-amqp: producers, consumers, SimpleQueue, exchange types, pools, mailbox."""
import socket
import threading

import amqp
import kombu
from kombu.mixins import ConsumerProducerMixin
from kombu.pidbox import Mailbox
from kombu.pools import connections, producers

from harness import URL, check, equal, holds, raises, until


def collect(connection, got, count):
    """Drains events until `got` has `count` elements."""

    def enough():
        try:
            connection.drain_events(timeout=0.2)
        except socket.timeout:
            pass
        return len(got) >= count

    if len(got) < count:
        until("%d messages" % count, enough)


@check("kombu: every serializer there is")
def _(ctx):
    queue = ctx.queue()
    for serializer, body in (("json", {"a": [1, None, "ü"]}), ("pickle", {"t": (1, 2)}), ("raw", b"\x00\xff")):
        ctx.send(queue, body, serializer=serializer)
        message = queue(ctx.channel).get(accept=["json", "pickle", "application/data"], no_ack=True)
        equal(serializer, message.payload, body)


@check("kombu: every compression there is")
def _(ctx):
    queue = ctx.queue()
    for compression in ("gzip", "bzip2", "lzma"):
        ctx.send(queue, "x" * 100000, compression=compression)
        message = queue(ctx.channel).get(no_ack=True)
        equal(compression, message.payload, "x" * 100000)
        holds("a header that names it", message.headers["compression"], message.headers)


@check("kombu: properties and headers come back")
def _(ctx):
    queue = ctx.queue()
    ctx.send(queue, "m", headers={"n": 1, "nested": {"list": [1, "two", None, True, 2.5]}}, correlation_id="c", reply_to="r",
             priority=7, message_id="id", type="t", app_id="a", expiration=60, delivery_mode=1)
    message = queue(ctx.channel).get(no_ack=True)
    equal("headers", message.headers, {"n": 1, "nested": {"list": [1, "two", None, True, 2.5]}})
    got = message.properties
    equal("properties", [got[key] for key in ("correlation_id", "reply_to", "priority", "message_id", "type", "app_id", "expiration", "delivery_mode")],
          ["c", "r", 7, "id", "t", "a", "60000", 1])


@check("kombu: a consumer with callbacks, in order, acknowledged")
def _(ctx):
    queue, got = ctx.queue(), []
    ctx.send(queue, *range(100))

    def received(body, message):
        got.append(body)
        message.ack()

    with kombu.Consumer(ctx.channel, [queue], callbacks=[received]):
        collect(ctx.connection, got, 100)
    equal("bodies", got, list(range(100)))
    equal("left", ctx.count(queue), 0)


@check("kombu: one consumer of several queues, cancelled by queue")
def _(ctx):
    one, two, got = ctx.queue(), ctx.queue(), []
    with kombu.Consumer(ctx.channel, [one, two], on_message=lambda message: got.append(message.payload), no_ack=True) as consumer:
        ctx.send(one, "1")
        ctx.send(two, "2")
        collect(ctx.connection, got, 2)
        consumer.cancel_by_queue(two.name)
        ctx.send(two, "3")
        ctx.send(one, "4")
        collect(ctx.connection, got, 3)
    equal("got", sorted(got), ["1", "2", "4"])
    equal("left", ctx.drain(two), ["3"])


@check("kombu: reject, requeue, and the redelivered flag")
def _(ctx):
    queue = ctx.queue()
    ctx.send(queue, "1", "2")
    queue(ctx.channel).get().requeue()
    message = queue(ctx.channel).get()
    equal("again", (message.payload, message.delivery_info["redelivered"]), ("1", True))
    message.reject()
    equal("left", ctx.drain(queue), ["2"])


@check("kombu: recover gives the unacknowledged back")
def _(ctx):
    queue, got = ctx.queue(), []
    ctx.send(queue, "1", "2")
    with kombu.Consumer(ctx.channel, [queue], on_message=got.append) as consumer:
        collect(ctx.connection, got, 2)
        consumer.recover(requeue=True)
        collect(ctx.connection, got, 4)
    equal("bodies", [message.payload for message in got], ["1", "2", "1", "2"])
    equal("redelivered", [message.delivery_info["redelivered"] for message in got], [False, False, True, True])


@check("kombu: prefetch limits what is delivered")
def _(ctx):
    queue, got = ctx.queue(), []
    ctx.send(queue, *range(10))
    with kombu.Consumer(ctx.channel, [queue], on_message=got.append, prefetch_count=3):
        collect(ctx.connection, got, 3)
        equal("ready", ctx.count(queue), 7)
        got[2].ack(multiple=True)
        collect(ctx.connection, got, 6)
        equal("ready", ctx.count(queue), 4)


@check("kombu: qos for the whole channel")
def _(ctx):
    queue, got = ctx.queue(), []
    ctx.send(queue, *range(10))
    consumers = [kombu.Consumer(ctx.channel, [queue], on_message=got.append) for _ in range(2)]
    consumers[0].qos(prefetch_count=3, apply_global=True)
    for consumer in consumers:
        consumer.consume()
    collect(ctx.connection, got, 3)
    equal("ready", ctx.count(queue), 7)


@check("kombu: confirms, each publish waits for its own")
def _(ctx):
    connection = ctx.connect(transport_options={"confirm_publish": True})
    queue = ctx.queue(durable=True)
    producer = kombu.Producer(connection.channel())
    for number in range(20):
        producer.publish(number, routing_key=queue.name)
    equal("queued", ctx.count(queue), 20)


@check("kombu: a mandatory message without a route comes back")
def _(ctx):
    returned = []
    producer = kombu.Producer(ctx.channel, on_return=lambda error, exchange, key, message: returned.append((error.reply_code, exchange, key)))
    producer.publish("m", routing_key="interop-missing", mandatory=True)
    collect(ctx.connection, returned, 1)
    equal("returned", returned, [(312, "", "interop-missing")])


@check("kombu: SimpleQueue puts, gets, requeues, counts, clears")
def _(ctx):
    name = ctx.name()
    ctx.later(lambda channel: (channel.queue_delete(name), channel.exchange_delete(name)))
    with ctx.connection.SimpleQueue(name) as queue:
        queue.put({"n": 1})
        queue.put({"n": 2})
        until("both", lambda: queue.qsize() == 2)
        message = queue.get(timeout=5)
        equal("payload", message.payload, {"n": 1})
        message.requeue()
        again = queue.get(timeout=5)
        again.ack()
        queue.get(timeout=5).ack()
        raises(queue.Empty, "", lambda: queue.get(block=False))
        queue.put("gone")
        queue.clear()
        equal("size", queue.qsize(), 0)


@check("kombu: SimpleBuffer, transient and without acknowledgement")
def _(ctx):
    name = ctx.name()
    ctx.later(lambda channel: (channel.queue_delete(name), channel.exchange_delete(name)))
    with ctx.connection.SimpleBuffer(name) as buffer:
        buffer.put("m")
        equal("payload", buffer.get(timeout=5).payload, "m")
        raises(buffer.Empty, "", lambda: buffer.get(timeout=0.05))


@check("kombu: direct, topic, fanout and headers exchanges")
def _(ctx):
    for kind, key, publish, miss in (("direct", "k", {"routing_key": "k"}, {"routing_key": "j"}), ("topic", "a.*.#", {"routing_key": "a.b.c.d"}, {"routing_key": "a"}),
                                     ("fanout", "", {"routing_key": "any"}, None), ("headers", "", {"headers": {"h": 1}}, {"headers": {"h": 2}})):
        exchange = ctx.exchange(kind)
        arguments = {"x-match": "all", "h": 1} if kind == "headers" else None
        queue = ctx.queue(exchange, key, binding_arguments=arguments)
        producer = kombu.Producer(ctx.channel, exchange)
        producer.publish(kind, **publish)
        if miss:
            producer.publish("not for it", **miss)
        equal(kind, ctx.drain(queue), [kind])


@check("kombu: bind_to and unbind_from between exchanges")
def _(ctx):
    source, destination = ctx.exchange("topic"), ctx.exchange("fanout")
    queue = ctx.queue(destination, "")
    destination(ctx.channel).bind_to(source, "a.#")
    kombu.Producer(ctx.channel, source).publish("m", routing_key="a.b")
    equal("bound", ctx.drain(queue), ["m"])
    destination(ctx.channel).unbind_from(source, "a.#")
    kombu.Producer(ctx.channel, source).publish("m", routing_key="a.b")
    equal("unbound", ctx.drain(queue), [])


@check("kombu: several bindings of one queue, and unbind")
def _(ctx):
    exchange = ctx.exchange("direct")
    name = ctx.name()
    queue = kombu.Queue(name, bindings=[kombu.binding(exchange, "a"), kombu.binding(exchange, "b")], exclusive=True)(ctx.channel)
    queue.declare()
    producer = kombu.Producer(ctx.channel, exchange)
    for key in "abc":
        producer.publish(key, routing_key=key)
    equal("both keys", ctx.drain(queue), ["a", "b"])
    queue.unbind_from(exchange, "a")
    for key in "abc":
        producer.publish(key, routing_key=key)
    equal("one key", ctx.drain(queue), ["b"])


@check("kombu: an exclusive queue is locked for others, and goes with its connection")
def _(ctx):
    other = ctx.connect()
    name = kombu.Queue("", exclusive=True)(other.channel()).queue_declare().queue
    holds("amq.gen-", name.startswith("amq.gen-"), name)
    raises(amqp.exceptions.ResourceLocked, "RESOURCE_LOCKED", lambda: ctx.connection.channel().queue_declare(name, passive=True))
    other.release()
    raises(amqp.exceptions.NotFound, "no queue '%s' in vhost '/'" % name, lambda: ctx.connection.channel().queue_declare(name, passive=True))


@check("kombu: passive declare of what is missing is NotFound, and the connection goes on")
def _(ctx):
    raises(amqp.exceptions.NotFound, "NOT_FOUND - no exchange 'interop-missing' in vhost '/'",
           lambda: kombu.Exchange("interop-missing", "direct", passive=True)(ctx.connection.channel()).declare())
    ctx.queue()


@check("kombu: a redeclare that differs is PreconditionFailed")
def _(ctx):
    queue = ctx.queue()
    raises(amqp.exceptions.PreconditionFailed, "inequivalent arg 'durable' for queue '%s' in vhost '/'" % queue.name,
           lambda: kombu.Queue(queue.name, durable=True)(ctx.connection.channel()).queue_declare())


@check("kombu: a wrong password is AccessRefused")
def _(ctx):
    connection = kombu.Connection(URL)
    connection.password = "not-the-password"
    raises(amqp.exceptions.AccessRefused, "Login was refused using authentication mechanism", connection.connect)


@check("kombu: delete if_unused and if_empty, and the count of purge")
def _(ctx):
    queue = ctx.queue()
    ctx.send(queue, "1", "2")
    raises(amqp.exceptions.PreconditionFailed, "not empty", lambda: queue(ctx.connection.channel()).delete(if_empty=True))
    equal("purged", queue(ctx.channel).purge(), 2)
    with kombu.Consumer(ctx.channel, [queue], on_message=lambda message: None):
        raises(amqp.exceptions.PreconditionFailed, "in use", lambda: queue(ctx.connection.channel()).delete(if_unused=True))


@check("kombu: heartbeats over two intervals, sent and checked by the client")
def _(ctx):
    connection = ctx.connect(heartbeat=1)
    connection.connect()
    equal("negotiated", connection.get_heartbeat_interval(), 1)
    for _ in range(12):
        try:
            connection.drain_events(timeout=0.2)
        except socket.timeout:
            pass
        connection.heartbeat_check(rate=4)
    connection.channel().queue_declare("", exclusive=True)


@check("kombu: pools of connections and producers")
def _(ctx):
    queue = ctx.queue()
    with producers[ctx.connection].acquire(block=True) as producer:
        producer.publish("1", routing_key=queue.name, retry=True, declare=[queue])
    with connections[ctx.connection].acquire(block=True) as connection:
        kombu.Producer(connection.channel()).publish("2", routing_key=queue.name)
    until("both", lambda: ctx.count(queue) == 2)


@check("kombu: publish with retry after the connection was lost")
def _(ctx):
    queue = ctx.queue()
    connection = ctx.connect()
    producer = connection.Producer()
    producer.publish("1", routing_key=queue.name)
    connection.connection.transport.sock.shutdown(socket.SHUT_RDWR)
    producer.publish("2", routing_key=queue.name, retry=True, retry_policy={"max_retries": 3, "interval_start": 0})
    until("both", lambda: ctx.count(queue) == 2)


@check("kombu: request and reply with ConsumerProducerMixin")
def _(ctx):
    requests, got = ctx.queue(), []

    class Server(ConsumerProducerMixin):
        """Answers each request with its double."""

        def __init__(self, connection):
            self.connection = connection

        def get_consumers(self, Consumer, channel):  # noqa: N803 (kombu's name)
            return [Consumer(queues=[requests], on_message=self.serve, prefetch_count=1)]

        def serve(self, message):
            """Answers one."""
            self.producer.publish(message.payload * 2, routing_key=message.properties["reply_to"],
                                  correlation_id=message.properties["correlation_id"], retry=True)
            message.ack()

    server = Server(ctx.connect())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        replies = ctx.queue(exclusive=True, auto_delete=True)
        for number in range(10):
            ctx.send(requests, number, reply_to=replies.name, correlation_id=str(number))
        with kombu.Consumer(ctx.channel, [replies], no_ack=True, on_message=lambda message: got.append((message.properties["correlation_id"], message.payload))):
            collect(ctx.connection, got, 10)
    finally:
        server.should_stop = True
        thread.join(10)
    equal("replies", got, [(str(number), 2 * number) for number in range(10)])


@check("kombu: a pidbox mailbox, cast and call over fanout, replies over direct")
def _(ctx):
    name = ctx.name()
    ctx.later(lambda channel: (channel.exchange_delete(name + ".pidbox"), channel.exchange_delete("reply." + name + ".pidbox")))
    mailbox = Mailbox(name, type="fanout", connection=ctx.connection, queue_expires=10.0, queue_ttl=300.0)
    heard = []
    node = mailbox.Node("node@interop", channel=ctx.channel)
    node.handlers["double"] = lambda state, n: heard.append(n) or 2 * n
    with node.listen(callback=node.handle_message):
        done = threading.Event()
        answers = []

        def call():
            other = kombu.Connection(URL)
            with other:
                answers.append(Mailbox(name, type="fanout", connection=other, queue_expires=10.0).call(["node@interop"], "double", {"n": 21}, timeout=5))
            done.set()

        thread = threading.Thread(target=call)
        thread.start()

        def finished():
            try:
                ctx.connection.drain_events(timeout=0.05)
            except socket.timeout:
                pass
            return done.is_set()

        until("the answer", finished)
        thread.join()
    equal("heard", heard, [21])
    equal("answers", answers, [[{"node@interop": 42}]])


@check("kombu: a consumer learns that its queue was deleted")
def _(ctx):
    queue, cancelled = ctx.queue(), []
    ctx.channel.basic_consume(queue.name, consumer_tag="mine", on_cancel=cancelled.append)
    ctx.connect().channel().queue_delete(queue.name)
    collect(ctx.connection, cancelled, 1)
    equal("cancelled", cancelled, ["mine"])


@check("kombu: transactions of the channel")
def _(ctx):
    queue = ctx.queue()
    channel = ctx.connection.channel()
    channel.tx_select()
    kombu.Producer(channel).publish("1", routing_key=queue.name)
    channel.tx_rollback()
    kombu.Producer(channel).publish("2", routing_key=queue.name)
    equal("before", ctx.count(queue), 0)
    channel.tx_commit()
    equal("after", ctx.drain(queue), ["2"])
