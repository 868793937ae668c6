import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import java.util.List;

/** Exchanges, queues, bindings. */
final class TopologyChecks {
    private TopologyChecks() {}

    static void register() {
        Harness.check("exchange: declare, passive, delete of the four types", ctx -> {
            for (BuiltinExchangeType type : BuiltinExchangeType.values()) {
                String name = ctx.name();
                ctx.channel().exchangeDeclare(name, type);
                ctx.channel().exchangeDeclarePassive(name);
                ctx.channel().exchangeDelete(name);
                Harness.closesChannel(ctx, 404, "no exchange '" + name + "' in vhost '/'", c -> c.exchangeDeclarePassive(name));
            }
        });
        Harness.check("exchange: another type at a redeclare is 406", ctx -> {
            String name = ctx.exchange("fanout");
            Harness.closesChannel(ctx, 406, "inequivalent arg 'type' for exchange '" + name + "' in vhost '/': received 'direct' but current is 'fanout'",
                c -> c.exchangeDeclare(name, "direct", false, false, null));
        });
        Harness.check("exchange: an unknown type is 503 for the connection", ctx ->
            Harness.closesConnection(ctx, 503, "COMMAND_INVALID - unknown exchange type 'x-nonsense'",
                c -> c.exchangeDeclare(ctx.name(), "x-nonsense")));
        Harness.check("exchange: reserved names are 403", ctx ->
            Harness.closesChannel(ctx, 403, "contains reserved prefix 'amq.*'", c -> c.exchangeDeclare("amq.mine", "direct")));
        Harness.check("exchange: an internal one takes no publishes", ctx -> {
            String name = ctx.name();
            ctx.channel().exchangeDeclare(name, "fanout", false, false, true, null);
            ctx.later(c -> c.exchangeDelete(name));
            Harness.closesChannel(ctx, 403, "cannot publish to internal exchange '" + name + "' in vhost '/'",
                c -> c.basicPublish(name, "", null, new byte[1]));
        });
        Harness.check("exchange: if-unused delete of a bound one is 406", ctx -> {
            String name = ctx.exchange("direct");
            ctx.bound(name, "k");
            Harness.closesChannel(ctx, 406, "exchange '" + name + "' in vhost '/' in use", c -> c.exchangeDelete(name, true));
        });
        Harness.check("exchange: auto-delete goes with its last binding", ctx -> {
            String name = ctx.name();
            ctx.channel().exchangeDeclare(name, "direct", false, true, null);
            String queue = ctx.bound(name, "k");
            ctx.channel().queueUnbind(queue, name, "k");
            Harness.closesChannel(ctx, 404, "no exchange '" + name + "'", c -> c.exchangeDeclarePassive(name));
        });
        Harness.check("exchange: bound to an exchange, routed through both, unbound", ctx -> {
            String source = ctx.exchange("topic");
            String destination = ctx.exchange("fanout");
            String queue = ctx.bound(destination, "");
            ctx.channel().exchangeBind(destination, source, "a.*");
            ctx.channel().basicPublish(source, "a.b", null, Harness.bytes("yes"));
            ctx.channel().basicPublish(source, "b.a", null, Harness.bytes("no"));
            Harness.equal("routed", ctx.drain(queue), List.of("yes"));
            ctx.channel().exchangeUnbind(destination, source, "a.*");
            ctx.channel().basicPublish(source, "a.b", null, Harness.bytes("no"));
            Harness.equal("after unbind", ctx.drain(queue), List.of());
        });
        Harness.check("exchange: a cycle of bindings delivers once", ctx -> {
            String a = ctx.exchange("fanout");
            String b = ctx.exchange("fanout");
            ctx.channel().exchangeBind(a, b, "");
            ctx.channel().exchangeBind(b, a, "");
            String queue = ctx.bound(b, "");
            ctx.channel().basicPublish(a, "", null, Harness.bytes("once"));
            Harness.equal("got", ctx.drain(queue), List.of("once"));
        });
        Harness.check("exchange: the no-wait forms of declare, bind, unbind, delete", ctx -> {
            Channel channel = ctx.channel();
            String source = ctx.name();
            String destination = ctx.name();
            channel.exchangeDeclareNoWait(source, BuiltinExchangeType.DIRECT, false, false, false, null);
            channel.exchangeDeclareNoWait(destination, "fanout", false, false, false, null);
            channel.exchangeBindNoWait(destination, source, "k", null);
            String queue = ctx.name();
            channel.queueDeclareNoWait(queue, false, true, false, null);
            channel.queueBindNoWait(queue, destination, "", null);
            channel.basicPublish(source, "k", null, Harness.bytes("through"));
            Harness.equal("got", ctx.drain(queue), List.of("through"));
            channel.exchangeUnbindNoWait(destination, source, "k", null);
            channel.basicPublish(source, "k", null, Harness.bytes("no"));
            Harness.equal("after unbind", ctx.drain(queue), List.of());
            channel.queueDeleteNoWait(queue, false, false);
            channel.exchangeDeleteNoWait(source, false);
            channel.exchangeDeleteNoWait(destination, false);
            Harness.closesChannel(ctx, 404, "no queue '" + queue + "'", c -> c.queueDeclarePassive(queue));
            Harness.closesChannel(ctx, 404, "no exchange '" + source + "'", c -> c.exchangeDeclarePassive(source));
        });
        Harness.check("routing: topic words, * and #", ctx -> {
            String exchange = ctx.exchange("topic");
            String star = ctx.bound(exchange, "a.*.c");
            String hash = ctx.bound(exchange, "a.#");
            String middle = ctx.bound(exchange, "#.c.#");
            for (String key : List.of("a", "a.b", "a.b.c", "a..c", "a.b.b.c", "c", "x.c.y")) {
                ctx.channel().basicPublish(exchange, key, null, Harness.bytes(key));
            }
            Harness.equal("a.*.c", ctx.drain(star), List.of("a.b.c", "a..c"));
            Harness.equal("a.#", ctx.drain(hash), List.of("a", "a.b", "a.b.c", "a..c", "a.b.b.c"));
            Harness.equal("#.c.#", ctx.drain(middle), List.of("a.b.c", "a..c", "a.b.b.c", "c", "x.c.y"));
        });
        Harness.check("routing: headers all and any, with typed values", ctx -> {
            String exchange = ctx.exchange("headers");
            String all = ctx.bound(exchange, "", "x-match", "all", "n", 1, "s", "t");
            String any = ctx.bound(exchange, "", "x-match", "any", "n", 1, "s", "t");
            publishHeaders(ctx, exchange, "both", "n", 1, "s", "t");
            publishHeaders(ctx, exchange, "one", "n", 1, "s", "u");
            publishHeaders(ctx, exchange, "none", "n", 2);
            Harness.equal("all", ctx.drain(all), List.of("both"));
            Harness.equal("any", ctx.drain(any), List.of("both", "one"));
        });
        Harness.check("routing: several keys, one queue, one copy", ctx -> {
            String exchange = ctx.exchange("topic");
            String queue = ctx.bound(exchange, "a.#");
            ctx.channel().queueBind(queue, exchange, "#.b");
            ctx.channel().basicPublish(exchange, "a.b", null, Harness.bytes("one"));
            Harness.equal("copies", ctx.drain(queue), List.of("one"));
        });
        Harness.check("queue: server-named, exclusive and auto-delete by default", ctx -> {
            String queue = ctx.channel().queueDeclare().getQueue();
            Harness.holds("amq.gen-", queue.startsWith("amq.gen-"), queue);
            Channel other = ctx.connect().createChannel();
            try {
                other.queueDeclarePassive(queue);
            } catch (java.io.IOException e) {
                Harness.holds("405", String.valueOf(e.getCause()).contains("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue"), e.getCause());
                return;
            }
            throw new Harness.Failed("another connection may use it");
        });
        Harness.check("queue: declare-ok counts messages and consumers", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2", "3");
            AMQP.Queue.DeclareOk ok = ctx.channel().queueDeclarePassive(queue);
            Harness.equal("messages", ok.getMessageCount(), 3);
            Harness.equal("consumers", ok.getConsumerCount(), 0);
            Harness.equal("messageCount", ctx.channel().messageCount(queue), 3L);
            ctx.channel().basicQos(1);
            ctx.channel().basicConsume(queue, false, (tag, delivery) -> { }, tag -> { });
            Harness.until("a consumer", () -> ctx.channel().consumerCount(queue) == 1L);
        });
        Harness.check("queue: durable at a redeclare as transient is 406", ctx -> {
            String queue = ctx.sharedQueue(true);
            Harness.closesChannel(ctx, 406, "inequivalent arg 'durable' for queue '" + queue + "' in vhost '/': received 'false' but current is 'true'",
                c -> c.queueDeclare(queue, false, false, false, null));
        });
        Harness.check("queue: purge and delete count", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2", "3");
            Harness.equal("purged", ctx.channel().queuePurge(queue).getMessageCount(), 3);
            ctx.send(queue, "4", "5");
            Harness.equal("deleted", ctx.channel().queueDelete(queue).getMessageCount(), 2);
        });
        Harness.check("queue: delete if-empty and if-unused are 406 when they do not hold", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1");
            Harness.closesChannel(ctx, 406, "queue '" + queue + "' in vhost '/' not empty", c -> c.queueDelete(queue, false, true));
            ctx.channel().basicConsume(queue, false, (tag, delivery) -> { }, tag -> { });
            Harness.closesChannel(ctx, 406, "queue '" + queue + "' in vhost '/' in use", c -> c.queueDelete(queue, true, false));
        });
        Harness.check("queue: auto-delete goes with its last consumer", ctx -> {
            String queue = ctx.name();
            ctx.channel().queueDeclare(queue, false, false, true, null);
            String tag = ctx.channel().basicConsume(queue, true, (t, delivery) -> { }, t -> { });
            ctx.channel().basicCancel(tag);
            Harness.closesChannel(ctx, 404, "no queue '" + queue + "'", c -> c.queueDeclarePassive(queue));
        });
        Harness.check("queue: exclusive goes with its connection", ctx -> {
            com.rabbitmq.client.Connection owner = ctx.connect();
            String queue = owner.createChannel().queueDeclare(ctx.name(), false, true, false, null).getQueue();
            owner.close();
            Harness.closesChannel(ctx, 404, "no queue '" + queue + "'", c -> c.queueDeclarePassive(queue));
        });
        Harness.check("queue: bind with a missing exchange is 404, unbind is fine", ctx -> {
            String queue = ctx.queue();
            ctx.channel().queueUnbind(queue, "interop-missing", "k");
            Harness.closesChannel(ctx, 404, "no exchange 'interop-missing' in vhost '/'", c -> c.queueBind(queue, "interop-missing", "k"));
        });
    }

    static void publishHeaders(Harness.Context ctx, String exchange, String body, Object... headers) throws Exception {
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(Harness.table(headers)).build();
        ctx.channel().basicPublish(exchange, "", properties, Harness.bytes(body));
    }
}
