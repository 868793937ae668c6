"""Streams: declaration, offsets, filters, tracked offsets, what they refuse."""
import pika

from harness import check, closes_channel, closes_connection, equal, ready, wait_until


def stream(ctx, **arguments):
    """Declares a durable stream that goes with the check; returns its name."""
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    arguments["x-queue-type"] = "stream"
    return ctx.queue(exclusive=False, durable=True, arguments=arguments)


def fill(ctx, queue, count, first=0, headers=None):
    """Publishes m<first> and so on, confirmed; headers gives those of a number."""
    channel = ctx.connection.channel()
    channel.confirm_delivery()
    for i in range(first, first + count):
        channel.basic_publish("", queue, b"m%d" % i, pika.BasicProperties(delivery_mode=2, headers=headers and headers(i)))
    channel.close()


def read(ctx, queue, count, prefetch=10, tag=None, ack=True, **arguments):
    """Consumes count messages on a channel of its own; returns (offset, body) of each."""
    got = []
    channel = ctx.connection.channel()
    channel.basic_qos(prefetch_count=prefetch)

    def take(_channel, method, properties, body):
        got.append((properties.headers["x-stream-offset"], body))
        if ack:
            channel.basic_ack(method.delivery_tag)

    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.basic_consume(queue, take, consumer_tag=tag, arguments=arguments)
    wait_until("%d messages of %s" % (count, queue), lambda: len(got) >= count, ctx.connection)
    channel.close()
    return got


def numbered(numbers):
    return [(i, b"m%d" % i) for i in numbers]


@check("streams: messages stay, for everybody; offsets are those of the header")
def offsets(ctx):
    queue = stream(ctx)
    fill(ctx, queue, 20)
    for offset, first in (("first", 0), (5, 5), (-3, 17), ("1h", 0)):
        equal(str(offset), read(ctx, queue, 20 - first, x_stream_offset=offset), numbered(range(first, 20)))
    equal("messages", ready(ctx.channel, queue), 20)


@check("streams: without an offset a consumer gets what comes from now on")
def next_offset(ctx):
    queue = stream(ctx)
    fill(ctx, queue, 3)
    got = []
    channel = ctx.connection.channel()
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume(queue, lambda c, m, p, body: got.append(body))
    fill(ctx, queue, 2, first=3)
    wait_until("two messages", lambda: len(got) >= 2, ctx.connection)
    equal("bodies", got, [b"m3", b"m4"])


@check("streams: filters by value, several values, unfiltered ones, headers")
def filters(ctx):
    queue = stream(ctx, x_stream_filter_size_bytes=32)
    fill(ctx, queue, 30, headers=lambda i: {"n": i % 3} if i % 4 == 3 else {"x-stream-filter-value": "v%d" % (i % 4), "n": i % 3})
    for arguments, wanted in (
        ({"x_stream_filter": "v1"}, lambda i: i % 4 == 1),
        ({"x_stream_filter": ["v0", "v2"]}, lambda i: i % 2 == 0),
        ({"x_stream_filter": "v1", "x_stream_match_unfiltered": True}, lambda i: i % 4 in (1, 3)),
        ({"x_stream_filter": {"n": "2"}}, lambda i: i % 3 == 2),
    ):
        want = numbered(i for i in range(30) if wanted(i))
        equal(str(arguments), read(ctx, queue, len(want), x_stream_offset="first", **arguments), want)


@check("streams: a consumer of a tag goes on behind what it has acknowledged")
def tracked(ctx):
    queue = stream(ctx)
    fill(ctx, queue, 10)
    equal("first", read(ctx, queue, 4, tag="me", prefetch=4, ack=False, x_stream_offset="first"), numbered(range(4)))
    arguments = {"x_stream_offset": "first", "x_stream_automatic_offset_tracking": True}
    equal("all", read(ctx, queue, 10, tag="me", **arguments), numbered(range(10)))
    fill(ctx, queue, 2, first=10)
    equal("the rest", read(ctx, queue, 2, tag="me"), numbered((10, 11)))


@check("streams: what they refuse, in RabbitMQ's words")
def refused(ctx):
    name = ctx.name()
    closes_channel(406, "invalid property 'non-durable' for queue '%s'" % name,
                   lambda: ctx.connection.channel().queue_declare(name, arguments={"x-queue-type": "stream"}))
    closes_channel(406, "invalid arg 'x-expires' for queue '%s' in vhost '/' of queue type rabbit_stream_queue" % name,
                   lambda: ctx.connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "stream", "x-expires": 1000}))
    queue = stream(ctx)
    closes_channel(406, "consumer prefetch count is not set for 'queue '%s' in vhost '/''" % queue,
                   lambda: ctx.connection.channel().basic_consume(queue, lambda *_: None))


@check("streams: basic.get is 540")
def get(ctx):
    queue = stream(ctx)
    connection = ctx.connect()
    closes_connection(540, "basic.get not supported by stream queues queue '%s' in vhost '/'" % queue,
                      lambda: connection.channel().basic_get(queue))
