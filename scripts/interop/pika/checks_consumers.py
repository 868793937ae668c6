"""Who gets a message and when: priorities of consumers and messages, single active consumers, time to acknowledge, direct reply-to."""
import pika

from harness import check, closes_channel, equal, holds, wait_until

REPLY_QUEUE = "amq.rabbitmq.reply-to"


def collect(channel, queue, **options):
    """Consumes into a list of (method, properties, body)."""
    got = []
    channel.basic_consume(queue, lambda _c, method, properties, body: got.append((method, properties, body)), **options)
    return got


def soon(ctx, what, condition):
    wait_until(what, condition, ctx.connection)


@check("consumer priority: the highest gets everything until it is out of credit")
def consumer_priority(ctx):
    queue = ctx.queue()
    low_channel, high_channel = ctx.connection.channel(), ctx.connection.channel()
    high_channel.basic_qos(prefetch_count=2)
    low = collect(low_channel, queue, auto_ack=True, arguments={"x-priority": -1})
    high = collect(high_channel, queue, arguments={"x-priority": 5})
    for n in range(4):
        ctx.channel.basic_publish("", queue, b"%d" % n)
    soon(ctx, "four deliveries", lambda: len(low) + len(high) == 4)
    equal("the high one", [body for _, _, body in high], [b"0", b"1"])
    equal("the low one", [body for _, _, body in low], [b"2", b"3"])
    high_channel.basic_ack(0, multiple=True)
    ctx.channel.basic_publish("", queue, b"4")
    soon(ctx, "a fifth delivery", lambda: len(low) + len(high) == 5)
    equal("who got it", len(high), 3)
    closes_channel(406, "expected integer, got longstr",
                   lambda: ctx.connection.channel().basic_consume(queue, print, arguments={"x-priority": "a"}))


@check("single active consumer: the next takes over when the first is cancelled")
def single_active(ctx):
    queue = ctx.queue(arguments={"x-single-active-consumer": True})
    first_channel, second_channel = ctx.connection.channel(), ctx.connection.channel()
    first = []
    tag = first_channel.basic_consume(queue, lambda _c, m, _p, body: first.append(body), auto_ack=True)
    second = collect(second_channel, queue, auto_ack=True)
    for n in range(3):
        ctx.channel.basic_publish("", queue, b"%d" % n)
    soon(ctx, "three deliveries", lambda: len(first) == 3)
    first_channel.basic_cancel(tag)
    ctx.channel.basic_publish("", queue, b"3")
    soon(ctx, "a delivery to the second", lambda: len(second) == 1)
    equal("the first", first, [b"0", b"1", b"2"])
    closes_channel(403, "in exclusive use", lambda: ctx.connection.channel().basic_consume(queue, print, exclusive=True))


@check("x-consumer-timeout: the channel of a late consumer is closed with 406, the message comes again")
def consumer_timeout(ctx):
    queue = ctx.queue(arguments={"x-consumer-timeout": 50})
    channel = ctx.connection.channel()
    got = collect(channel, queue)
    ctx.channel.basic_publish("", queue, b"m")
    soon(ctx, "a delivery", lambda: len(got) == 1)
    soon(ctx, "the channel closed", lambda: not channel.is_open)
    method, _, body = ctx.channel.basic_get(queue, auto_ack=True)
    equal("the message", (body, method.redelivered), (b"m", True))


@check("x-max-priority: the highest first, the oldest of them first, requeued ones in their place")
def priorities(ctx):
    queue = ctx.queue(arguments={"x-max-priority": 10})
    for n, priority in enumerate((1, None, 10, 99, 1, 5)):
        ctx.channel.basic_publish("", queue, b"%d" % n, pika.BasicProperties(priority=priority))
    equal("declared again", ctx.channel.queue_declare(queue, passive=True).method.message_count, 6)
    method, _, body = ctx.channel.basic_get(queue)
    equal("the first", body, b"2")
    ctx.channel.basic_nack(method.delivery_tag, requeue=True)
    got = [ctx.channel.basic_get(queue, auto_ack=True) for _ in range(6)]
    equal("all", [body for _, _, body in got], [b"2", b"3", b"5", b"0", b"4", b"1"])
    equal("redelivered", [m.redelivered for m, _, _ in got], [True] + 5 * [False])
    equal("priority", [p.priority for _, p, _ in got], [10, 99, 5, 1, 1, None])


@check("direct reply-to: request and reply without a queue; a late reply is returned")
def direct_reply(ctx):
    queue = ctx.queue(exclusive=False)
    server = ctx.connect().channel()
    replies = collect(ctx.channel, REPLY_QUEUE, auto_ack=True)
    for n in range(3):
        ctx.channel.basic_publish("", queue, b"request %d" % n, pika.BasicProperties(reply_to=REPLY_QUEUE, correlation_id=str(n)))
    name = None
    for n in range(3):
        wait_until("a request", lambda: server.queue_declare(queue, passive=True).method.message_count > 0, ctx.connection)
        _, properties, _ = server.basic_get(queue, auto_ack=True)
        name = properties.reply_to
        holds("a name of its own", name.startswith(REPLY_QUEUE + "."), name)
        server.basic_publish("", name, b"reply", pika.BasicProperties(correlation_id=properties.correlation_id))
    soon(ctx, "three replies", lambda: len(replies) == 3)
    equal("correlation", [p.correlation_id for _, p, _ in replies], ["0", "1", "2"])
    equal("consumers", server.queue_declare(name, passive=True).method.consumer_count, 1)
    ctx.connection.close()
    server.confirm_delivery()
    wait_until("the client gone", lambda: gone(server, name), server.connection)
    closes_channel(404, "no queue", lambda: server.connection.channel().queue_declare(name, passive=True))


def gone(server, name):
    """Whether a reply can not be delivered any more."""
    try:
        server.basic_publish("", name, b"late", mandatory=True)
    except pika.exceptions.UnroutableError:
        return True
    return False


@check("direct reply-to: refusals")
def direct_reply_refused(ctx):
    closes_channel(406, "reply consumer cannot acknowledge", lambda: ctx.connection.channel().basic_consume(REPLY_QUEUE, print))

    def without_consumer():
        channel = ctx.connection.channel()
        channel.basic_publish("", "q", b"m", pika.BasicProperties(reply_to=REPLY_QUEUE))
        channel.queue_declare("", exclusive=True)

    closes_channel(406, "fast reply consumer does not exist", without_consumer)
