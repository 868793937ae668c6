"""Consuming: get, consume, cancel, acknowledgements, prefetch, fairness, redelivery."""
import re

from pika import spec

from harness import check, closes_channel, closes_connection, drain, equal, holds, publish, ready, wait_until


class Sink:
    """A consumer that keeps what it gets."""

    def __init__(self, channel, queue, **arguments):
        self.messages = []
        self.tag = channel.basic_consume(queue, self._deliver, **arguments)

    def _deliver(self, channel, method, properties, body):
        self.messages.append((body.decode(), method.delivery_tag, method.redelivered, method.consumer_tag))

    @property
    def bodies(self):
        """The bodies so far."""
        return [message[0] for message in self.messages]

    def wait(self, count, connection):
        """Waits for that many messages."""
        wait_until("%d messages" % count, lambda: len(self.messages) >= count, connection)


def settle(left, left_expected, sinks, delivered_expected, connection):
    """Waits for a number of ready messages and of delivered ones; then checks that neither goes on changing."""

    def delivered():
        return sum(len(sink.messages) for sink in sinks)

    wait_until("%d delivered (now %d)" % (delivered_expected, delivered()), lambda: delivered() >= delivered_expected, connection)
    wait_until("%d ready" % left_expected, lambda: left() == left_expected, connection)
    for _ in range(3):  # each asks the broker, on the consumers' channel: more deliveries would come before the answer
        equal("ready", left(), left_expected)
        connection.process_data_events(0)
        equal("delivered", delivered(), delivered_expected)


def numbers(count, start=0):
    """The strings "0", "1", …"""
    return [str(number) for number in range(start, start + count)]


def got(channel, queue):
    """Gets until empty without acking; returns (body, redelivered)."""
    result = []
    while True:
        method, _, body = channel.basic_get(queue)
        if method is None:
            return result
        result.append((body.decode(), method.redelivered))


@check("get: in order, with tags and the count of those left; then empty")
def get(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(3))
    answers = [ctx.channel.basic_get(queue) for _ in range(4)]
    equal("bodies", [body for _, _, body in answers], [b"0", b"1", b"2", None])
    equal("tags, counts, redelivered", [(m.delivery_tag, m.message_count, m.redelivered) for m, _, _ in answers[:3]],
          [(1, 2, False), (2, 1, False), (3, 0, False)])
    closes_channel(404, "no queue", lambda: ctx.connection.channel().basic_get(ctx.name()))


@check("consume: a thousand messages in order with consecutive tags")
def consume(ctx):
    queue = ctx.queue()
    sink = Sink(ctx.channel, queue)
    publish(ctx.connection.channel(), queue, *numbers(1000))
    sink.wait(1000, ctx.connection)
    equal("bodies", sink.bodies, numbers(1000))
    equal("tags", [message[1] for message in sink.messages], list(range(1, 1001)))
    ctx.channel.basic_ack(1000, multiple=True)
    equal("left", ready(ctx.channel, queue), 0)


@check("consume: own tag is kept, the server's are amq.ctag-…, a missing queue is 404")
def tags(ctx):
    queue = ctx.queue()
    equal("tag", ctx.channel.basic_consume(queue, print, consumer_tag="mine"), "mine")
    impl, answers = ctx.channel._impl, []
    impl._rpc(spec.Basic.Consume(queue=queue, consumer_tag=""), lambda frame: answers.append(frame.method.consumer_tag),
              [spec.Basic.ConsumeOk])  # pika itself never sends an empty tag
    wait_until("consume-ok", lambda: answers, ctx.connection)
    holds("a generated tag", re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{16,}", answers[0]), answers)
    closes_channel(404, "no queue", lambda: ctx.connection.channel().basic_consume(ctx.name(), print))


@check("consume: the same tag on two channels is fine, twice on one is 530")
def duplicate_tag(ctx):
    queue = ctx.queue()
    ctx.channel.basic_consume(queue, print, consumer_tag="t")
    ctx.connection.channel().basic_consume(queue, print, consumer_tag="t")
    closes_connection(530, "attempt to reuse consumer tag 't'",
                      lambda: (ctx.channel._impl._send_method(spec.Basic.Consume(queue=queue, consumer_tag="t")),
                               ctx.channel.queue_declare(queue, passive=True)))


@check("cancel: nothing is delivered afterwards, unacked messages stay with the channel")
def cancel(ctx):
    queue = ctx.queue()
    sink = Sink(ctx.channel, queue)
    publish(ctx.channel, queue, "1")
    sink.wait(1, ctx.connection)
    ctx.channel.basic_cancel(sink.tag)
    publish(ctx.channel, queue, "2")
    equal("ready", ready(ctx.channel, queue), 1)
    ctx.channel.basic_nack(1, requeue=True)
    equal("bodies", drain(ctx.channel, queue), [b"1", b"2"])


@check("cancel: an unknown tag is answered")
def cancel_unknown(ctx):
    impl, answers = ctx.channel._impl, []

    impl._rpc(spec.Basic.Cancel(consumer_tag="unknown"), lambda frame: answers.append(frame.method.consumer_tag), [spec.Basic.CancelOk])
    wait_until("cancel-ok", lambda: answers, ctx.connection)
    equal("tag", answers, ["unknown"])


@check("cancel by the server: when the queue is deleted")
def cancel_notify(ctx):
    queue, cancelled = ctx.queue(), []
    ctx.channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = ctx.channel.basic_consume(queue, print)
    ctx.connection.channel().queue_delete(queue)
    wait_until("the notification", lambda: cancelled, ctx.connection)
    equal("cancelled", cancelled, [tag])


@check("no-ack: delivered messages are gone and leave no tag to ack")
def no_ack(ctx):
    queue, consumer = ctx.queue(), ctx.connection.channel()
    sink = Sink(consumer, queue, auto_ack=True)
    publish(ctx.channel, queue, "1")
    sink.wait(1, ctx.connection)
    consumer.basic_ack(1)
    closes_channel(406, "unknown delivery tag 1", lambda: consumer.queue_declare(queue, passive=True))
    equal("bodies", drain(ctx.channel, queue), [])


@check("ack: single and multiple, in any order")
def ack(ctx):
    queue, consumer = ctx.queue(), ctx.connection.channel()
    publish(ctx.channel, queue, *numbers(6))
    got(consumer, queue)
    consumer.basic_ack(2)
    consumer.basic_ack(4)
    consumer.basic_ack(3, multiple=True)
    consumer.close()
    equal("left", drain(ctx.channel, queue), [b"4", b"5"])


@check("ack: tag 0 with multiple means all")
def ack_all(ctx):
    queue, consumer = ctx.queue(), ctx.connection.channel()
    publish(ctx.channel, queue, *numbers(4))
    got(consumer, queue)
    consumer.basic_ack(0, multiple=True)
    consumer.basic_ack(0, multiple=True)
    consumer.close()
    equal("left", drain(ctx.channel, queue), [])


@check("ack: an unknown, a repeated, a foreign and a future multiple tag are 406")
def ack_unknown(ctx):
    queue = ctx.queue()
    for tags_acked, text in (([(9, False)], "unknown delivery tag 9"), ([(1, False), (1, False)], "unknown delivery tag 1"),
                             ([(9, True)], "unknown delivery tag 9"), ([(0, False)], "unknown delivery tag 0")):
        channel = ctx.connection.channel()
        publish(channel, queue, "x")
        channel.basic_get(queue)
        for tag, multiple in tags_acked:
            channel.basic_ack(tag, multiple=multiple)
        closes_channel(406, text, lambda: channel.queue_declare(queue, passive=True))


@check("nack and reject of an unknown tag are 406")
def nack_unknown(ctx):
    for action in (lambda ch: ch.basic_nack(5), lambda ch: ch.basic_reject(5)):
        channel = ctx.connection.channel()
        action(channel)
        closes_channel(406, "unknown delivery tag 5", lambda: channel.basic_qos(prefetch_count=1))


@check("reject: requeue=false drops, requeue=true redelivers at the original position")
def reject(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(5))
    for _ in range(3):
        ctx.channel.basic_get(queue)
    ctx.channel.basic_reject(1, requeue=False)
    ctx.channel.basic_reject(2, requeue=True)
    equal("bodies, redelivered", got(ctx.channel, queue), [("1", True), ("3", False), ("4", False)])


@check("nack: multiple and requeue put messages back in order, ahead of newer ones")
def nack(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(6))
    for _ in range(4):
        ctx.channel.basic_get(queue)
    ctx.channel.basic_nack(3, multiple=True, requeue=True)
    ctx.channel.basic_nack(4, requeue=True)
    equal("bodies, redelivered", got(ctx.channel, queue),
          [("0", True), ("1", True), ("2", True), ("3", True), ("4", False), ("5", False)])
    ctx.channel.basic_nack(0, multiple=True, requeue=False)
    equal("left", ready(ctx.channel, queue), 0)


@check("nack: requeued one by one in reverse they still come in the original order")
def nack_reverse(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(5))
    got(ctx.channel, queue)
    for tag in (5, 3, 1, 4, 2):
        ctx.channel.basic_nack(tag, requeue=True)
    equal("bodies", drain(ctx.channel, queue), [b"0", b"1", b"2", b"3", b"4"])


@check("recover: unacked messages come again, flagged, in order")
def recover(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(3))
    got(ctx.channel, queue)
    ctx.channel.basic_recover(requeue=True)
    equal("bodies, redelivered", got(ctx.channel, queue), [("0", True), ("1", True), ("2", True)])


@check("recover: a consumer gets its messages again")
def recover_consumer(ctx):
    queue = ctx.queue()
    sink = Sink(ctx.channel, queue)
    publish(ctx.channel, queue, *numbers(2))
    sink.wait(2, ctx.connection)
    ctx.channel.basic_recover(requeue=True)
    sink.wait(4, ctx.connection)
    equal("body, tag, redelivered", [message[:3] for message in sink.messages],
          [("0", 1, False), ("1", 2, False), ("0", 3, True), ("1", 4, True)])


@check("recover: requeue=false is 540, connection closed")
def recover_false(ctx):
    closes_connection(540, "requeue=false", lambda: ctx.channel.basic_recover(requeue=False))


@check("recover-async: requeues without an answer")
def recover_async(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(2))
    got(ctx.channel, queue)
    ctx.channel._impl._send_method(spec.Basic.RecoverAsync(True))
    equal("bodies, redelivered", got(ctx.channel, queue), [("0", True), ("1", True)])


@check("qos: the prefetch per consumer is exact, and new for new consumers only")
def qos(ctx):
    queue, consumer = ctx.queue(), ctx.connection.channel()
    publish(ctx.channel, queue, *numbers(10))
    consumer.basic_qos(prefetch_count=3)
    first = Sink(consumer, queue)
    settle(lambda: ready(consumer, queue), 7, [first], 3, ctx.connection)
    equal("first", first.bodies, ["0", "1", "2"])
    consumer.basic_qos(prefetch_count=2)
    second = Sink(consumer, queue)
    settle(lambda: ready(consumer, queue), 5, [second], 2, ctx.connection)
    equal("second", second.bodies, ["3", "4"])
    consumer.basic_ack(1)
    settle(lambda: ready(consumer, queue), 4, [first], 4, ctx.connection)
    equal("first after an ack", first.bodies, ["0", "1", "2", "5"])
    consumer.basic_ack(0, multiple=True)
    settle(lambda: ready(consumer, queue), 0, [first, second], 10, ctx.connection)
    equal("all", sorted(first.bodies + second.bodies), numbers(10))


@check("qos: the global prefetch is shared by the channel's consumers, and get does not count")
def qos_global(ctx):
    queues = [ctx.queue(), ctx.queue()]
    consumer = ctx.connection.channel()
    consumer.basic_qos(prefetch_count=3, global_qos=True)
    sinks = [Sink(consumer, queue) for queue in queues]
    for queue in queues:
        publish(ctx.channel, queue, *numbers(5))

    def left():
        return sum(ready(consumer, queue) for queue in queues)

    settle(left, 7, sinks, 3, ctx.connection)
    holds("a message for get", consumer.basic_get(queues[1])[0] is not None)
    consumer.basic_ack(2, multiple=True)
    settle(left, 4, sinks, 5, ctx.connection)


@check("qos: no limit (0) delivers all; prefetch_size is 540")
def qos_none(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, *numbers(300))
    ctx.channel.basic_qos(prefetch_count=0)
    sink = Sink(ctx.channel, queue)
    sink.wait(300, ctx.connection)
    closes_connection(540, "prefetch_size!=0", lambda: ctx.channel.basic_qos(prefetch_size=1))


@check("exclusive consumer: a second consumer is 403, either way; free again after cancel")
def exclusive(ctx):
    queue = ctx.queue()
    tag = ctx.channel.basic_consume(queue, print, exclusive=True)
    closes_channel(403, "in exclusive use", lambda: ctx.connection.channel().basic_consume(queue, print))
    ctx.channel.basic_cancel(tag)
    ctx.channel.basic_consume(queue, print)
    closes_channel(403, "in exclusive use", lambda: ctx.connection.channel().basic_consume(queue, print, exclusive=True))


@check("two consumers take turns")
def round_robin(ctx):
    queue = ctx.queue()
    sinks = [Sink(ctx.connection.channel(), queue) for _ in range(2)]
    publish(ctx.channel, queue, *numbers(20))
    wait_until("all", lambda: sum(len(sink.messages) for sink in sinks) == 20, ctx.connection)
    equal("shares", [len(sink.messages) for sink in sinks], [10, 10])
    equal("every second one", sorted(sink.bodies[:2] for sink in sinks), [["0", "2"], ["1", "3"]])


@check("turns: three consumers on three connections share nine hundred messages strictly")
def strict_turns(ctx):
    queue, got = ctx.queue(exclusive=False), ([], [], [])
    connections = [ctx.connect() for _ in got]
    for connection, bodies in zip(connections, got):
        connection.channel().basic_consume(queue, lambda _c, _m, _p, body, bodies=bodies: bodies.append(int(body)), auto_ack=True)
    publish(ctx.channel, queue, *[b"%d" % n for n in range(900)])
    for connection, bodies in zip(connections, got):
        wait_until("three hundred messages", lambda bodies=bodies: len(bodies) == 300, connection)
    for i, bodies in enumerate(got):
        equal("consumer %d" % i, bodies, list(range(i, 900, 3)))


@check("a closing channel requeues its unacked messages in order, flagged")
def channel_close(ctx):
    queue, consumer = ctx.queue(), ctx.connection.channel()
    publish(ctx.channel, queue, *numbers(5))
    for _ in range(3):
        consumer.basic_get(queue)
    consumer.basic_ack(2)
    consumer.close()
    equal("bodies, redelivered", got(ctx.channel, queue), [("0", True), ("2", True), ("3", False), ("4", False)])


@check("a dying connection requeues its unacked messages in order, flagged")
def connection_close(ctx):
    queue = ctx.queue(exclusive=False)
    publish(ctx.channel, queue, *numbers(5))
    ctx.channel.queue_declare(queue, passive=True)
    other = ctx.connect()
    sink = Sink(other.channel(), queue)
    sink.wait(5, other)
    other._impl._transport._sock.shutdown(2)  # no close handshake
    wait_until("5 ready", lambda: ready(ctx.channel, queue) == 5, ctx.connection)
    equal("bodies, redelivered", got(ctx.channel, queue), [(number, True) for number in numbers(5)])
