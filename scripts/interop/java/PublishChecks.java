import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.impl.LongStringHelper;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** Publishing: properties, sizes, confirms, returns, transactions. */
final class PublishChecks {
    private PublishChecks() {}

    static void register() {
        Harness.check("publish: all fourteen properties come back", ctx -> {
            AMQP.BasicProperties sent = new AMQP.BasicProperties.Builder().contentType("text/plain").contentEncoding("utf-8")
                .headers(new HashMap<>()).deliveryMode(2).priority(9).correlationId("c").replyTo("r").expiration("60000")
                .messageId("m").timestamp(new Date(1_700_000_000_000L)).type("t").userId("guest").appId("a").clusterId("x").build();
            String queue = ctx.queue();
            ctx.channel().basicPublish("", queue, sent, new byte[0]);
            Harness.equal("properties", ctx.await(queue).getProps().toString(), sent.toString());
        });
        Harness.check("publish: no properties stay no properties", ctx -> {
            String queue = ctx.queue();
            ctx.channel().basicPublish("", queue, new AMQP.BasicProperties(), new byte[0]);
            Harness.equal("properties", ctx.await(queue).getProps().toString(), new AMQP.BasicProperties().toString());
        });
        for (Map.Entry<String, Object> value : headerValues().entrySet()) {
            Harness.check("headers: " + value.getKey(), ctx -> {
                String queue = ctx.queue();
                AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(Harness.table("v", value.getValue())).build();
                ctx.channel().basicPublish("", queue, properties, new byte[0]);
                Object got = ctx.await(queue).getProps().getHeaders().get("v");
                Harness.equal("value", readable(got), readable(value.getValue()));
                if (got instanceof Number || got instanceof Date || got instanceof Boolean) {
                    Harness.holds("the same type", value.getValue().getClass().isInstance(got), got.getClass());
                }
            });
        }
        for (int size : new int[] {0, 1, 131064, 131065, 262129, 1 << 20, 16 << 20}) {
            Harness.check("body: " + size + " bytes", ctx -> {
                byte[] body = new byte[size];
                new Random(size).nextBytes(body);
                String queue = ctx.queue();
                ctx.channel().basicPublish("", queue, null, body);
                Harness.holds("the same bytes", Arrays.equals(ctx.await(queue).getBody(), body), "others");
            });
        }
        Harness.check("body: 100 kB through frames of 4096", ctx -> {
            com.rabbitmq.client.ConnectionFactory factory = Harness.factory();
            factory.setRequestedFrameMax(4096);
            Channel small = ctx.connect(factory).createChannel();
            byte[] body = new byte[100_000];
            new Random(1).nextBytes(body);
            String queue = small.queueDeclare().getQueue();
            small.basicPublish("", queue, null, body);
            small.queueDeclarePassive(queue);
            Harness.holds("the same bytes", Arrays.equals(small.basicGet(queue, true).getBody(), body), "others");
        });
        Harness.check("confirm: waitForConfirms after each and after many, persistent and durable", ctx -> {
            String queue = ctx.sharedQueue(true);
            Channel channel = ctx.connection().createChannel();
            channel.confirmSelect();
            Harness.equal("first number", channel.getNextPublishSeqNo(), 1L);
            channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, Harness.bytes("1"));
            Harness.equal("confirmed", channel.waitForConfirms(10_000), true);
            for (int i = 0; i < 1000; i++) {
                channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, new byte[16]);
            }
            channel.waitForConfirmsOrDie(10_000);
            Harness.equal("messages", channel.messageCount(queue), 1001L);
        });
        Harness.check("confirm: a listener hears each number once, none as nack", ctx -> {
            String queue = ctx.queue();
            Channel channel = ctx.channel();
            ConcurrentSkipListSet<Long> outstanding = new ConcurrentSkipListSet<>();
            AtomicInteger nacks = new AtomicInteger();
            AtomicInteger strange = new AtomicInteger();
            channel.addConfirmListener(new ConfirmListener() {
                @Override
                public void handleAck(long number, boolean multiple) {
                    if (multiple) {
                        outstanding.headSet(number, true).clear();
                    } else if (!outstanding.remove(number)) {
                        strange.incrementAndGet();
                    }
                }

                @Override
                public void handleNack(long number, boolean multiple) {
                    nacks.incrementAndGet();
                }
            });
            channel.confirmSelect();
            for (int i = 0; i < 2000; i++) {
                outstanding.add(channel.getNextPublishSeqNo());
                channel.basicPublish("", queue, null, new byte[10]);
            }
            Harness.until("all confirms", outstanding::isEmpty);
            Harness.equal("nacks", nacks.get(), 0);
            Harness.equal("acks of unknown numbers", strange.get(), 0);
        });
        Harness.check("confirm: a return comes before its ack", ctx -> {
            BlockingQueue<String> events = new LinkedBlockingQueue<>();
            Channel channel = ctx.channel();
            channel.addReturnListener((Return returned) -> events.add("return " + returned.getReplyCode()));
            channel.addConfirmListener((number, multiple) -> events.add("ack " + number), (number, multiple) -> events.add("nack " + number));
            channel.confirmSelect();
            channel.basicPublish("", "interop-missing", true, null, new byte[1]);
            Harness.equal("first", Harness.next("the return", events), "return 312");
            Harness.equal("second", Harness.next("the ack", events), "ack 1");
        });
        Harness.check("confirm: not on a tx channel, tx not on a confirm channel", ctx -> {
            Harness.closesChannel(ctx, 406, "cannot switch from tx to confirm mode", c -> {
                c.txSelect();
                c.confirmSelect();
            });
            Harness.closesChannel(ctx, 406, "cannot switch from confirm to tx mode", c -> {
                c.confirmSelect();
                c.txSelect();
            });
        });
        Harness.check("return: carries exchange, key, text, properties and body", ctx -> {
            BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
            String exchange = ctx.exchange("direct");
            ctx.channel().addReturnListener(returns::add);
            ctx.channel().basicPublish(exchange, "nowhere", true, MessageProperties.TEXT_PLAIN, Harness.bytes("back"));
            Return got = Harness.next("the return", returns);
            Harness.equal("code", got.getReplyCode(), 312);
            Harness.equal("text", got.getReplyText(), "NO_ROUTE");
            Harness.equal("exchange", got.getExchange(), exchange);
            Harness.equal("key", got.getRoutingKey(), "nowhere");
            Harness.equal("properties", got.getProperties().toString(), MessageProperties.TEXT_PLAIN.toString());
            Harness.equal("body", Harness.text(got.getBody()), "back");
        });
        Harness.check("return: no listener hears a routed or a not mandatory message", ctx -> {
            BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
            ctx.channel().addReturnListener(returns::add);
            String queue = ctx.queue();
            ctx.channel().basicPublish("", queue, true, null, new byte[1]);
            ctx.channel().basicPublish("", "interop-missing", false, null, new byte[1]);
            ctx.channel().basicPublish("", "interop-missing", true, null, Harness.bytes("last"));
            Harness.equal("the first heard", Harness.text(Harness.next("a return", returns).getBody()), "last");
        });
        Harness.check("publish: a missing exchange closes the channel with 404", ctx ->
            Harness.closesChannel(ctx, 404, "no exchange 'interop-missing' in vhost '/'", c -> c.basicPublish("interop-missing", "k", null, new byte[1])));
        Harness.check("publish: another user-id is 406", ctx ->
            Harness.closesChannel(ctx, 406, "user_id property set to 'somebody' but authenticated user was 'guest'",
                c -> c.basicPublish("", "k", new AMQP.BasicProperties.Builder().userId("somebody").build(), new byte[1])));
        Harness.check("publish: a bad expiration is 406", ctx ->
            Harness.closesChannel(ctx, 406, "invalid expiration 'soon'",
                c -> c.basicPublish("", ctx.queue(), new AMQP.BasicProperties.Builder().expiration("soon").build(), new byte[1])));
        Harness.check("tx: publishes show at commit, not before and not after a rollback", ctx -> {
            String queue = ctx.sharedQueue(false);
            Channel tx = ctx.connection().createChannel();
            tx.txSelect();
            tx.basicPublish("", queue, null, Harness.bytes("1"));
            tx.basicPublish("", queue, null, Harness.bytes("2"));
            Harness.equal("before", ctx.channel().messageCount(queue), 0L);
            tx.txCommit();
            Harness.equal("after commit", ctx.drain(queue), List.of("1", "2"));
            tx.basicPublish("", queue, null, Harness.bytes("3"));
            tx.txRollback();
            tx.txCommit();
            Harness.equal("after rollback", ctx.drain(queue), List.of());
        });
        Harness.check("tx: acks count at commit, and a rollback takes them back", ctx -> {
            String queue = ctx.sharedQueue(false);
            ctx.send(queue, "1");
            Channel tx = ctx.connection().createChannel();
            tx.txSelect();
            GetResponse got = tx.basicGet(queue, false);
            tx.basicAck(got.getEnvelope().getDeliveryTag(), false);
            tx.txRollback();
            tx.basicRecover(true);
            got = tx.basicGet(queue, false);
            Harness.equal("redelivered", got.getEnvelope().isRedeliver(), true);
            tx.basicAck(got.getEnvelope().getDeliveryTag(), false);
            tx.txCommit();
            tx.close();
            Harness.equal("left", ctx.drain(queue), List.of());
        });
        Harness.check("tx: commit without select is 406", ctx ->
            Harness.closesChannel(ctx, 406, "channel is not transactional", Channel::txCommit));
    }

    /** What the client can put into a table, each under the name of its kind. */
    private static Map<String, Object> headerValues() {
        Map<String, Object> values = new java.util.LinkedHashMap<>();
        values.put("string", "text");
        values.put("long string of 70,000 bytes", LongStringHelper.asLongString("x".repeat(70_000)));
        values.put("byte", (byte) -7);
        values.put("short", (short) -30000);
        values.put("int", -2_000_000_000);
        values.put("long", Long.MIN_VALUE);
        values.put("float", 1.5f);
        values.put("double", -2.25e300);
        values.put("boolean", true);
        values.put("decimal", new BigDecimal("-12345.67"));
        values.put("timestamp", new Date(1_700_000_000_000L));
        values.put("byte array", new byte[] {0, 1, (byte) 255});
        values.put("void", null);
        values.put("empty table", Harness.table());
        values.put("nested table", Harness.table("a", Harness.table("b", Harness.table("c", 1L))));
        values.put("list of all kinds", Arrays.asList(1, 2L, true, "s", null, List.of(1, List.of()), Harness.table("k", 1.5d)));
        return values;
    }

    /** A value as a string that compares whatever class strings have. */
    private static String readable(Object value) {
        if (value instanceof byte[]) {
            return Arrays.toString((byte[]) value);
        }
        if (value instanceof List) {
            StringBuilder text = new StringBuilder("[");
            ((List<?>) value).forEach(element -> text.append(readable(element)).append(", "));
            return text.append("]").toString();
        }
        if (value instanceof Map) {
            StringBuilder text = new StringBuilder("{");
            for (Object key : new TreeSet<>(((Map<?, ?>) value).keySet())) {
                text.append(key).append("=").append(readable(((Map<?, ?>) value).get(key))).append(", ");
            }
            return text.append("}").toString();
        }
        return value instanceof LongString ? value.toString() : String.valueOf(value);
    }
}
