import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** RabbitMQ's extensions: arguments of queues and exchanges, CC, reply-to. */
final class ArgumentChecks {
    private ArgumentChecks() {}

    static void register() {
        Harness.check("argument: x-message-ttl drops what is too old", ctx -> {
            String queue = ctx.queue("x-message-ttl", 1);
            ctx.channel().basicPublish("", queue, null, new byte[1]);
            Harness.until("an empty queue", () -> ctx.channel().messageCount(queue) == 0);
        });
        Harness.check("argument: x-message-ttl must not be negative", ctx ->
            Harness.closesChannel(ctx, 406, "invalid arg 'x-message-ttl'", c -> c.queueDeclare(ctx.name(), false, true, false, Harness.table("x-message-ttl", -1))));
        Harness.check("argument: the expiration of a message", ctx -> {
            String queue = ctx.queue();
            ctx.channel().basicPublish("", queue, new AMQP.BasicProperties.Builder().expiration("1").build(), new byte[1]);
            Harness.until("an empty queue", () -> ctx.channel().messageCount(queue) == 0);
        });
        Harness.check("argument: x-expires deletes an unused queue", ctx -> {
            String queue = ctx.name();
            ctx.channel().queueDeclare(queue, false, false, false, Harness.table("x-expires", 300));
            Harness.until("the queue to go", () -> {
                Channel probe = ctx.connection().createChannel();
                Thread.sleep(400); // each look at it counts as use
                try {
                    probe.queueDeclarePassive(queue);
                    probe.close();
                    return false;
                } catch (java.io.IOException gone) {
                    return true;
                }
            });
        });
        Harness.check("argument: x-max-length drops from the head", ctx -> {
            String queue = ctx.queue("x-max-length", 2);
            ctx.send(queue, "1", "2", "3");
            Harness.equal("left", ctx.drain(queue), List.of("2", "3"));
        });
        Harness.check("argument: x-max-length-bytes drops from the head", ctx -> {
            String queue = ctx.queue("x-max-length-bytes", 10);
            ctx.send(queue, "11111", "22222", "33333");
            Harness.equal("left", ctx.drain(queue), List.of("22222", "33333"));
        });
        Harness.check("argument: x-overflow reject-publish answers nack", ctx -> {
            String queue = ctx.queue("x-max-length", 1, "x-overflow", "reject-publish");
            BlockingQueue<String> confirms = new LinkedBlockingQueue<>();
            ctx.channel().addConfirmListener((number, multiple) -> confirms.add("ack"), (number, multiple) -> confirms.add("nack"));
            ctx.channel().confirmSelect();
            ctx.channel().basicPublish("", queue, null, Harness.bytes("1"));
            Harness.equal("first", Harness.next("a confirm", confirms), "ack");
            ctx.channel().basicPublish("", queue, null, Harness.bytes("2"));
            Harness.equal("second", Harness.next("a confirm", confirms), "nack");
            Harness.equal("left", ctx.drain(queue), List.of("1"));
        });
        Harness.check("argument: x-dead-letter-exchange takes what is rejected, with x-death", ctx -> {
            String target = ctx.queue();
            String queue = ctx.queue("x-dead-letter-exchange", "", "x-dead-letter-routing-key", target);
            ctx.send(queue, "dead");
            ctx.channel().basicReject(ctx.channel().basicGet(queue, false).getEnvelope().getDeliveryTag(), false);
            GetResponse got = ctx.await(target);
            Harness.equal("body", Harness.text(got.getBody()), "dead");
            Map<String, Object> headers = got.getProps().getHeaders();
            Map<?, ?> death = (Map<?, ?>) ((List<?>) headers.get("x-death")).get(0);
            Harness.equal("reason", death.get("reason").toString(), "rejected");
            Harness.equal("queue", death.get("queue").toString(), queue);
            Harness.equal("count", death.get("count"), 1L);
            Harness.equal("x-first-death-reason", headers.get("x-first-death-reason").toString(), "rejected");
        });
        Harness.check("argument: a TTL and a dead letter exchange make a delay", ctx -> {
            String target = ctx.queue();
            String queue = ctx.queue("x-message-ttl", 20, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", target);
            ctx.channel().basicPublish("", queue, null, Harness.bytes("later"));
            GetResponse got = ctx.await(target);
            Map<?, ?> death = (Map<?, ?>) ((List<?>) got.getProps().getHeaders().get("x-death")).get(0);
            Harness.equal("reason", death.get("reason").toString(), "expired");
        });
        Harness.check("argument: x-dead-letter-routing-key without an exchange is 406", ctx ->
            Harness.closesChannel(ctx, 406, "invalid arg 'x-dead-letter-routing-key'",
                c -> c.queueDeclare(ctx.name(), false, true, false, Harness.table("x-dead-letter-routing-key", "k"))));
        Harness.check("argument: x-max-priority orders by priority", ctx -> {
            String queue = ctx.queue("x-max-priority", 5);
            for (int priority : new int[] {1, 5, 3, 9}) {
                ctx.channel().basicPublish("", queue, new AMQP.BasicProperties.Builder().priority(priority).build(), Harness.bytes("" + priority));
            }
            ctx.channel().queueDeclarePassive(queue);
            Harness.equal("order", ctx.drain(queue), List.of("5", "9", "3", "1"));
        });
        Harness.check("argument: x-single-active-consumer serves one, then the next", ctx -> {
            String queue = ctx.queue("x-single-active-consumer", true);
            BlockingQueue<String> one = new LinkedBlockingQueue<>();
            BlockingQueue<String> two = new LinkedBlockingQueue<>();
            String first = ctx.channel().basicConsume(queue, true, (tag, delivery) -> one.add(Harness.text(delivery.getBody())), tag -> { });
            ctx.channel().basicConsume(queue, true, (tag, delivery) -> two.add(Harness.text(delivery.getBody())), tag -> { });
            ctx.send(queue, "1", "2", "3");
            Harness.until("three at the first", () -> one.size() == 3);
            ctx.channel().basicCancel(first);
            ctx.send(queue, "4");
            Harness.equal("the second gets", Harness.next("a delivery", two), "4");
        });
        Harness.check("argument: x-priority of a consumer", ctx -> {
            String queue = ctx.queue();
            BlockingQueue<Delivery> low = ConsumeChecks.consume(ctx.channel(), queue);
            BlockingQueue<String> high = new LinkedBlockingQueue<>();
            ctx.channel().basicConsume(queue, true, Harness.table("x-priority", 10), (tag, delivery) -> high.add(Harness.text(delivery.getBody())), tag -> { });
            ctx.send(queue, "1", "2", "3", "4");
            Harness.until("four deliveries", () -> low.size() + high.size() == 4);
            Harness.equal("of low priority", low.size(), 0);
        });
        Harness.check("argument: another x-max-length at a redeclare is 406", ctx -> {
            String queue = ctx.queue("x-max-length", 5);
            Harness.closesChannel(ctx, 406, "inequivalent arg 'x-max-length' for queue '" + queue + "' in vhost '/': received '6' but current is '5'",
                c -> c.queueDeclare(queue, false, true, false, Harness.table("x-max-length", 6)));
        });
        Harness.check("argument: alternate-exchange takes what has no route", ctx -> {
            String alternate = ctx.exchange("fanout");
            String queue = ctx.bound(alternate, "");
            String exchange = ctx.exchange("direct", "alternate-exchange", alternate);
            String direct = ctx.bound(exchange, "known");
            BlockingQueue<String> returns = new LinkedBlockingQueue<>();
            ctx.channel().addReturnListener(returned -> returns.add(returned.getRoutingKey()));
            ctx.channel().basicPublish(exchange, "known", true, null, Harness.bytes("1"));
            ctx.channel().basicPublish(exchange, "other", true, null, Harness.bytes("2"));
            Harness.equal("direct", ctx.drain(direct), List.of("1"));
            Harness.equal("alternate", ctx.drain(queue), List.of("2"));
            Harness.equal("returned", returns.poll(), null);
        });
        Harness.check("argument: x-consistent-hash spreads over its queues", ctx -> {
            String exchange = ctx.exchange("x-consistent-hash");
            String one = ctx.bound(exchange, "1");
            String two = ctx.bound(exchange, "1");
            for (int i = 0; i < 200; i++) {
                ctx.channel().basicPublish(exchange, "key" + i, null, new byte[1]);
            }
            ctx.channel().queueDeclarePassive(one);
            long first = ctx.channel().messageCount(one);
            long second = ctx.channel().messageCount(two);
            Harness.equal("sum", first + second, 200L);
            Harness.holds("a share for each", first > 20 && second > 20, first + " and " + second);
        });
        Harness.check("argument: CC and BCC headers route too, BCC is taken out", ctx -> {
            String to = ctx.queue();
            String cc = ctx.queue();
            String bcc = ctx.queue();
            AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
                .headers(Harness.table("CC", List.of(cc), "BCC", List.of(bcc))).build();
            ctx.channel().basicPublish("", to, properties, Harness.bytes("m"));
            for (String queue : List.of(to, cc, bcc)) {
                Map<String, Object> headers = ctx.await(queue).getProps().getHeaders();
                Harness.equal("CC kept", headers.containsKey("CC"), true);
                Harness.equal("BCC kept", headers.containsKey("BCC"), false);
            }
        });
        Harness.check("argument: direct reply-to", ctx -> {
            String queue = ctx.queue();
            BlockingQueue<String> replies = new LinkedBlockingQueue<>();
            ctx.channel().basicConsume("amq.rabbitmq.reply-to", true, (tag, delivery) -> replies.add(Harness.text(delivery.getBody())), tag -> { });
            ctx.channel().basicPublish("", queue, new AMQP.BasicProperties.Builder().replyTo("amq.rabbitmq.reply-to").build(), Harness.bytes("q"));
            String address = ctx.await(queue).getProps().getReplyTo();
            Harness.holds("an address of its own", address.startsWith("amq.rabbitmq.reply-to."), address);
            ctx.connect().createChannel().basicPublish("", address, null, Harness.bytes("a"));
            Harness.equal("reply", Harness.next("the reply", replies), "a");
        });
        Harness.check("argument: x-queue-type classic and an unknown argument are accepted", ctx -> {
            String queue = ctx.queue("x-queue-type", "classic", "x-interop-unknown", "anything");
            ctx.send(queue, "1");
            Harness.equal("left", ctx.drain(queue), List.of("1"));
        });
    }
}
