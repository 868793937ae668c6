"""kombu: RabbitMQ's arguments of queues, exchanges and consumers."""
import kombu

from checks_kombu import collect
from harness import check, equal, holds, until


@check("kombu argument: expires deletes an unused queue")
def _(ctx):
    name = ctx.name()
    kombu.Queue(name, expires=0.3, durable=False)(ctx.channel).declare()
    exchange = ctx.exchange("fanout")
    ctx.channel.queue_bind(name, exchange.name)

    def unrouted():
        returned = []
        producer = kombu.Producer(ctx.channel, exchange, on_return=lambda *arguments: returned.append(arguments))
        producer.publish("m", mandatory=True)
        ctx.channel.exchange_declare(exchange.name, "fanout", passive=True)
        return returned

    until("the queue to go", unrouted)


@check("kombu argument: message_ttl and max_length")
def _(ctx):
    short = ctx.queue(message_ttl=0.001)
    ctx.send(short, "m")
    until("an empty queue", lambda: ctx.count(short) == 0)
    limited = ctx.queue(max_length=2)
    ctx.send(limited, 1, 2, 3)
    equal("left", ctx.drain(limited), [2, 3])


@check("kombu argument: max_length_bytes")
def _(ctx):
    limited = ctx.queue(max_length_bytes=10)
    ctx.send(limited, b"11111", b"22222", b"33333")
    equal("left", ctx.drain(limited), [b"22222", b"33333"])


@check("kombu argument: max_priority, the highest first")
def _(ctx):
    queue = ctx.queue(max_priority=10)
    for priority in (1, 9, 5):
        ctx.send(queue, priority, priority=priority)
    equal("order", ctx.drain(queue), [9, 5, 1])


@check("kombu argument: consumer_arguments x-priority")
def _(ctx):
    queue, got = ctx.queue(), []
    important = kombu.Queue(queue.name, durable=False, consumer_arguments={"x-priority": 10})(ctx.channel)
    with kombu.Consumer(ctx.channel, [queue], no_ack=True, on_message=lambda message: got.append("low"), auto_declare=False), \
            kombu.Consumer(ctx.channel, [important], no_ack=True, on_message=lambda message: got.append("high"), auto_declare=False):
        ctx.send(queue, 1, 2, 3, 4)
        collect(ctx.connection, got, 4)
    equal("of low priority", got.count("low"), 0)


@check("kombu argument: a dead letter exchange takes what is rejected")
def _(ctx):
    exchange = ctx.exchange("direct")
    dead = ctx.queue(exchange, "dead")
    queue = ctx.queue(queue_arguments={"x-dead-letter-exchange": exchange.name, "x-dead-letter-routing-key": "dead"})
    ctx.send(queue, "m")
    queue(ctx.channel).get().reject()
    message = until("the dead letter", lambda: dead(ctx.channel).get(no_ack=True))
    equal("reason", message.headers["x-death"][0]["reason"], "rejected")
    equal("first queue", message.headers["x-first-death-queue"], queue.name)


@check("kombu argument: alternate-exchange")
def _(ctx):
    alternate = ctx.exchange("fanout")
    unrouted = ctx.queue(alternate, "")
    exchange = ctx.exchange("direct", arguments={"alternate-exchange": alternate.name})
    kombu.Producer(ctx.channel, exchange).publish("m", routing_key="nowhere")
    equal("got", ctx.drain(unrouted), ["m"])


@check("kombu argument: an exchange of type x-consistent-hash")
def _(ctx):
    exchange = ctx.exchange("x-consistent-hash")
    queues = [ctx.queue(exchange, "1") for _ in range(2)]
    producer = kombu.Producer(ctx.channel, exchange)
    for number in range(200):
        producer.publish("m", routing_key="key%d" % number)
    counts = [ctx.count(queue) for queue in queues]
    equal("sum", sum(counts), 200)
    holds("a share for each", min(counts) > 20, counts)
