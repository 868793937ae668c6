import static com.rabbitmq.client.AMQP.REPLY_SUCCESS;

import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.BlockedListener;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Connections and channels: opening, tuning, refusing, closing. */
final class ConnectionChecks {
    private ConnectionChecks() {}

    static void register() {
        Harness.check("connection: server properties name product, version and platform", ctx -> {
            Map<String, Object> properties = ctx.connection().getServerProperties();
            for (String key : new String[] {"product", "version", "platform"}) {
                Harness.holds(key + " as a string", properties.get(key) instanceof LongString, properties.get(key));
            }
        });
        Harness.check("connection: the capabilities that this client looks at are announced", ctx -> {
            Object capabilities = ctx.connection().getServerProperties().get("capabilities");
            Harness.holds("a table", capabilities instanceof Map, capabilities);
            for (String key : new String[] {"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
                "consumer_cancel_notify", "connection.blocked", "authentication_failure_close"}) {
                Harness.equal(key, ((Map<?, ?>) capabilities).get(key), true);
            }
        });
        Harness.check("connection: tune gives limits, and lower ones are accepted", ctx -> {
            Harness.equal("frame_max", ctx.connection().getFrameMax(), 131072);
            Harness.equal("channel_max", ctx.connection().getChannelMax(), 2047);
            ConnectionFactory factory = Harness.factory();
            factory.setRequestedFrameMax(4096);
            factory.setRequestedChannelMax(3);
            factory.setRequestedHeartbeat(7);
            Connection small = ctx.connect(factory);
            Harness.equal("frame_max", small.getFrameMax(), 4096);
            Harness.equal("channel_max", small.getChannelMax(), 3);
            Harness.equal("heartbeat", small.getHeartbeat(), 7);
        });
        Harness.check("connection: the client refuses more channels than channel_max", ctx -> {
            ConnectionFactory factory = Harness.factory();
            factory.setRequestedChannelMax(3);
            Connection small = ctx.connect(factory);
            for (int i = 0; i < 3; i++) {
                small.createChannel();
            }
            Harness.equal("a fourth channel", small.createChannel(), null);
        });
        Harness.check("connection: a wrong password is an authentication failure", ctx -> {
            ConnectionFactory factory = Harness.factory();
            factory.setPassword("not-the-password");
            try {
                ctx.connect(factory);
            } catch (AuthenticationFailureException e) {
                Harness.holds("ACCESS_REFUSED", e.getMessage().contains(
                    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"), e.getMessage());
                return;
            }
            throw new Harness.Failed("the connection was accepted");
        });
        Harness.check("connection: an unknown vhost is 530", ctx -> {
            ConnectionFactory factory = Harness.factory();
            factory.setVirtualHost("no-such-vhost");
            try {
                ctx.connect(factory);
            } catch (IOException e) {
                Harness.holds("530", String.valueOf(e.getCause()).contains("vhost no-such-vhost not found"), e.getCause());
                return;
            }
            throw new Harness.Failed("the connection was accepted");
        });
        Harness.check("connection: client properties and a name of one's own", ctx -> {
            ConnectionFactory factory = Harness.factory();
            factory.setClientProperties(Harness.table("product", "interop", "nested", Harness.table("a", 1, "b", true)));
            try (Connection named = factory.newConnection("interop connection")) {
                Harness.equal("name", named.getClientProvidedName(), "interop connection");
                named.createChannel().queueDeclare();
            }
        });
        Harness.check("connection: idle for two heartbeats and alive", ctx -> {
            ConnectionFactory factory = Harness.factory();
            factory.setRequestedHeartbeat(1);
            Connection idle = ctx.connect(factory);
            BlockingQueue<ShutdownSignalException> closed = new LinkedBlockingQueue<>();
            idle.addShutdownListener(closed::add);
            Harness.equal("a shutdown", closed.poll(2500, java.util.concurrent.TimeUnit.MILLISECONDS), null);
            idle.createChannel().queueDeclare();
        });
        Harness.check("connection: the NIO mode of the client", ctx -> {
            ConnectionFactory factory = Harness.factory();
            factory.useNio();
            Connection nio = ctx.connect(factory);
            Channel channel = nio.createChannel();
            String queue = channel.queueDeclare().getQueue();
            channel.confirmSelect();
            byte[] body = new byte[300_000];
            body[299_999] = 7;
            channel.basicPublish("", queue, null, body);
            channel.waitForConfirmsOrDie(10_000);
            Harness.equal("body", channel.basicGet(queue, true).getBody(), body);
        });
        Harness.check("connection: close by the application carries code and text", ctx -> {
            Connection closing = ctx.connect();
            BlockingQueue<ShutdownSignalException> closed = new LinkedBlockingQueue<>();
            closing.addShutdownListener(closed::add);
            closing.close(REPLY_SUCCESS, "enough");
            ShutdownSignalException signal = Harness.next("the shutdown", closed);
            Harness.equal("by the application", signal.isInitiatedByApplication(), true);
            Harness.equal("hard", signal.isHardError(), true);
        });
        Harness.check("connection: a blocked listener hears nothing while there is room", ctx -> {
            BlockingQueue<String> heard = new LinkedBlockingQueue<>();
            ctx.connection().addBlockedListener(new BlockedListener() {
                @Override
                public void handleBlocked(String reason) {
                    heard.add("blocked: " + reason);
                }

                @Override
                public void handleUnblocked() {
                    heard.add("unblocked");
                }
            });
            ctx.channel().confirmSelect();
            String queue = ctx.queue();
            for (int i = 0; i < 200; i++) {
                ctx.channel().basicPublish("", queue, null, new byte[1000]);
            }
            ctx.channel().waitForConfirmsOrDie(10_000);
            Harness.equal("heard", heard.poll(), null);
        });
        Harness.check("channel: fifty at once, each with traffic, numbers used again", ctx -> {
            Set<Integer> numbers = new HashSet<>();
            for (int i = 0; i < 50; i++) {
                Channel channel = ctx.connection().createChannel();
                String queue = channel.queueDeclare().getQueue();
                channel.basicPublish("", queue, null, Harness.bytes("m" + i));
                channel.queueDeclarePassive(queue);
                Harness.equal("body", Harness.text(channel.basicGet(queue, true).getBody()), "m" + i);
                numbers.add(channel.getChannelNumber());
                if (i % 2 == 1) {
                    channel.close();
                }
            }
            Harness.holds("fewer numbers than channels", numbers.size() < 50, numbers);
        });
        Harness.check("channel: a number asked for, and its second use refused by the client", ctx -> {
            Harness.equal("number", ctx.connection().createChannel(77).getChannelNumber(), 77);
            Harness.equal("again", ctx.connection().createChannel(77), null);
        });
        Harness.check("channel: after a channel error the next one works", ctx -> {
            Harness.closesChannel(ctx, 404, "NOT_FOUND - no queue 'interop-missing' in vhost '/'",
                channel -> channel.queueDeclarePassive("interop-missing"));
            ctx.connection().createChannel().queueDeclare();
        });
        Harness.check("channel: abort while deliveries are under way", ctx -> {
            String queue = ctx.sharedQueue(false);
            for (int i = 0; i < 500; i++) {
                ctx.channel().basicPublish("", queue, null, new byte[100]);
            }
            Channel aborted = ctx.connection().createChannel();
            aborted.basicConsume(queue, false, (tag, delivery) -> { }, tag -> { });
            aborted.abort();
            Harness.until("all messages to be back", () -> ctx.channel().messageCount(queue) == 500);
        });
    }
}
