import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Getting, consuming, settling, prefetch. */
final class ConsumeChecks {
    private ConsumeChecks() {}

    /** Starts a consumer that acknowledges nothing and returns what it gets. */
    static BlockingQueue<Delivery> consume(Channel channel, String queue) throws Exception {
        BlockingQueue<Delivery> got = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, false, (tag, delivery) -> got.add(delivery), tag -> { });
        return got;
    }

    static String body(BlockingQueue<Delivery> got) throws Exception {
        return Harness.text(Harness.next("a delivery", got).getBody());
    }

    static void register() {
        Harness.check("get: envelope, count, empty", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2");
            GetResponse got = ctx.channel().basicGet(queue, false);
            Harness.equal("exchange", got.getEnvelope().getExchange(), "");
            Harness.equal("key", got.getEnvelope().getRoutingKey(), queue);
            Harness.equal("redelivered", got.getEnvelope().isRedeliver(), false);
            Harness.equal("tag", got.getEnvelope().getDeliveryTag(), 1L);
            Harness.equal("count", got.getMessageCount(), 1);
            ctx.channel().basicAck(1, false);
            ctx.drain(queue);
            Harness.equal("empty", ctx.channel().basicGet(queue, false), null);
        });
        Harness.check("nack: requeued to its place, flagged redelivered", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2", "3");
            ctx.channel().basicGet(queue, false);
            ctx.channel().basicGet(queue, false);
            ctx.channel().basicNack(2, true, true);
            GetResponse got = ctx.channel().basicGet(queue, true);
            Harness.equal("first", Harness.text(got.getBody()), "1");
            Harness.equal("redelivered", got.getEnvelope().isRedeliver(), true);
            Harness.equal("rest", ctx.drain(queue), List.of("2", "3"));
        });
        Harness.check("nack: without requeue the messages are gone", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2", "3");
            ctx.channel().basicGet(queue, false);
            ctx.channel().basicGet(queue, false);
            ctx.channel().basicNack(0, true, false);
            Harness.equal("rest", ctx.drain(queue), List.of("3"));
        });
        Harness.check("reject: with and without requeue", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2");
            ctx.channel().basicReject(ctx.channel().basicGet(queue, false).getEnvelope().getDeliveryTag(), true);
            ctx.channel().basicReject(ctx.channel().basicGet(queue, false).getEnvelope().getDeliveryTag(), false);
            Harness.equal("rest", ctx.drain(queue), List.of("2"));
        });
        Harness.check("ack: an unknown tag is 406", ctx ->
            Harness.closesChannel(ctx, 406, "unknown delivery tag 42", c -> c.basicAck(42, false)));
        Harness.check("ack: twice is 406", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1");
            Harness.closesChannel(ctx, 406, "unknown delivery tag 1", c -> {
                c.basicGet(queue, false);
                c.basicAck(1, false);
                c.basicAck(1, false);
            });
        });
        Harness.check("recover: all unacked come again, in order", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2");
            BlockingQueue<Delivery> got = consume(ctx.channel(), queue);
            body(got);
            body(got);
            ctx.channel().basicRecover();
            Harness.equal("first", body(got), "1");
            Delivery second = Harness.next("the second", got);
            Harness.equal("second", Harness.text(second.getBody()), "2");
            Harness.equal("redelivered", second.getEnvelope().isRedeliver(), true);
        });
        Harness.check("recover: requeue=false is 540 for the connection", ctx ->
            Harness.closesConnection(ctx, 540, "NOT_IMPLEMENTED - requeue=false", c -> c.basicRecover(false)));
        Harness.check("consume: 5,000 in order with rising tags", ctx -> {
            String queue = ctx.queue();
            BlockingQueue<Delivery> got = consume(ctx.channel(), queue);
            Channel publisher = ctx.connection().createChannel();
            for (int i = 1; i <= 5000; i++) {
                publisher.basicPublish("", queue, null, Harness.bytes("" + i));
            }
            for (int i = 1; i <= 5000; i++) {
                Delivery delivery = Harness.next("delivery " + i, got);
                Harness.equal("body", Harness.text(delivery.getBody()), "" + i);
                Harness.equal("tag", delivery.getEnvelope().getDeliveryTag(), (long) i);
            }
            ctx.channel().basicAck(5000, true);
            Harness.until("an empty queue", () -> ctx.channel().messageCount(queue) == 0L);
        });
        Harness.check("consume: tags by the server and of one's own; a duplicate is 530", ctx -> {
            String queue = ctx.queue();
            String made = ctx.channel().basicConsume(queue, true, (tag, delivery) -> { }, tag -> { });
            Harness.holds("amq.ctag-", made.startsWith("amq.ctag-"), made);
            Harness.equal("own", ctx.channel().basicConsume(queue, true, "mine", (tag, delivery) -> { }, tag -> { }), "mine");
            String shared = ctx.sharedQueue(false);
            Harness.closesConnection(ctx, 530, "attempt to reuse consumer tag 'twice'", c -> {
                c.basicConsume(shared, true, "twice", (tag, delivery) -> { }, tag -> { });
                c.basicConsume(shared, true, "twice", (tag, delivery) -> { }, tag -> { });
            });
        });
        Harness.check("consume: a missing queue is 404", ctx ->
            Harness.closesChannel(ctx, 404, "no queue 'interop-missing' in vhost '/'",
                c -> c.basicConsume("interop-missing", (tag, delivery) -> { }, tag -> { })));
        Harness.check("consume: exclusive keeps others out and needs to be alone", ctx -> {
            String queue = ctx.queue();
            String tag = ctx.channel().basicConsume(queue, true, "", false, true, null, (t, delivery) -> { }, t -> { });
            Harness.closesChannel(ctx, 403, "queue '" + queue + "' in vhost '/' in exclusive use", c -> c.basicConsume(queue, (t, delivery) -> { }, t -> { }));
            ctx.channel().basicCancel(tag);
            ctx.channel().basicConsume(queue, (t, delivery) -> { }, t -> { });
            Harness.closesChannel(ctx, 403, "in exclusive use",
                c -> c.basicConsume(queue, true, "", false, true, null, (t, delivery) -> { }, t -> { }));
        });
        Harness.check("cancel: cancel-ok, then no more deliveries", ctx -> {
            String queue = ctx.queue();
            BlockingQueue<String> events = new LinkedBlockingQueue<>();
            String tag = ctx.channel().basicConsume(queue, true, new DefaultConsumer(ctx.channel()) {
                @Override
                public void handleConsumeOk(String t) {
                    events.add("consume-ok");
                }

                @Override
                public void handleCancelOk(String t) {
                    events.add("cancel-ok");
                }

                @Override
                public void handleDelivery(String t, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
                    events.add(Harness.text(body));
                }
            });
            Harness.equal("first", Harness.next("consume-ok", events), "consume-ok");
            ctx.send(queue, "1");
            Harness.equal("then", Harness.next("the delivery", events), "1");
            ctx.channel().basicCancel(tag);
            Harness.equal("then", Harness.next("cancel-ok", events), "cancel-ok");
            ctx.send(queue, "2");
            Harness.equal("left", ctx.drain(queue), List.of("2"));
            Harness.equal("events", events.poll(), null);
        });
        Harness.check("cancel: the server tells when the queue is deleted", ctx -> {
            String queue = ctx.sharedQueue(false);
            BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
            String tag = ctx.channel().basicConsume(queue, true, (t, delivery) -> { }, cancelled::add);
            ctx.connect().createChannel().queueDelete(queue);
            Harness.equal("tag", Harness.next("the cancel", cancelled), tag);
            ctx.channel().queueDeclare();
        });
        Harness.check("cancel: the shutdown callback fires at the channel's end", ctx -> {
            Channel channel = ctx.connection().createChannel();
            BlockingQueue<ShutdownSignalException> signals = new LinkedBlockingQueue<>();
            channel.basicConsume(ctx.queue(), true, (tag, delivery) -> { }, tag -> { }, (tag, signal) -> signals.add(signal));
            channel.close();
            Harness.equal("by the application", Harness.next("the signal", signals).isInitiatedByApplication(), true);
        });
        Harness.check("qos: a prefetch is kept to exactly, per consumer", ctx -> {
            String queue = ctx.queue();
            ctx.send(queue, "1", "2", "3", "4", "5");
            ctx.channel().basicQos(2);
            BlockingQueue<Delivery> got = consume(ctx.channel(), queue);
            body(got);
            Delivery second = Harness.next("the second", got);
            Harness.equal("ready", ctx.channel().messageCount(queue), 3L);
            Harness.equal("a third", got.poll(100, TimeUnit.MILLISECONDS), null);
            ctx.channel().basicAck(second.getEnvelope().getDeliveryTag(), false);
            Harness.equal("third", body(got), "3");
        });
        Harness.check("qos: global counts over the channel's consumers", ctx -> {
            String queue = ctx.queue();
            ctx.channel().basicQos(3, true);
            BlockingQueue<Delivery> one = consume(ctx.channel(), queue);
            BlockingQueue<Delivery> two = consume(ctx.channel(), queue);
            ctx.send(queue, "1", "2", "3", "4", "5", "6");
            Harness.until("three deliveries", () -> one.size() + two.size() == 3);
            Harness.equal("ready", ctx.channel().messageCount(queue), 3L);
            ctx.channel().basicAck(3, true);
            Harness.until("six deliveries", () -> one.size() + two.size() == 6);
        });
        Harness.check("qos: prefetch_size is 540 for the connection", ctx ->
            Harness.closesConnection(ctx, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)", c -> c.basicQos(10, 1, false)));
        Harness.check("consume: two consumers share in turn", ctx -> {
            String queue = ctx.queue();
            BlockingQueue<Delivery> one = consume(ctx.channel(), queue);
            BlockingQueue<Delivery> two = consume(ctx.channel(), queue);
            ctx.send(queue, "1", "2", "3", "4", "5", "6", "7", "8");
            Harness.until("eight deliveries", () -> one.size() + two.size() == 8);
            Harness.equal("the first one's share", one.size(), 4);
        });
        Harness.check("channel close: unacked go back in order", ctx -> {
            String queue = ctx.sharedQueue(false);
            ctx.send(queue, "1", "2", "3", "4");
            Channel closing = ctx.connection().createChannel();
            closing.basicQos(3);
            BlockingQueue<Delivery> got = consume(closing, queue);
            List<String> bodies = new ArrayList<>(List.of(body(got), body(got), body(got)));
            Harness.equal("got", bodies, List.of("1", "2", "3"));
            closing.close();
            Harness.until("all ready", () -> ctx.channel().messageCount(queue) == 4L);
            Harness.equal("again", ctx.drain(queue), List.of("1", "2", "3", "4"));
        });
        Harness.check("rpc: the client's RpcServer and RpcClient over a reply queue", ctx -> {
            String queue = ctx.queue();
            String replies = ctx.queue();
            Channel serving = ctx.connection().createChannel();
            RpcServer server = new RpcServer(serving, queue) {
                @Override
                public byte[] handleCall(byte[] request, AMQP.BasicProperties replyProperties) {
                    return Harness.bytes("re: " + Harness.text(request));
                }
            };
            Thread loop = new Thread(() -> {
                try {
                    server.mainloop();
                } catch (java.io.IOException | ShutdownSignalException closed) {
                    // the end of the check
                }
            });
            loop.setDaemon(true);
            loop.start();
            RpcClient client = new RpcClient(ctx.channel(), "", queue, replies, 10_000);
            for (int i = 0; i < 20; i++) {
                Harness.equal("answer", client.stringCall("q" + i), "re: q" + i);
            }
            server.terminateMainloop();
            client.close();
            server.close();
        });
    }
}
