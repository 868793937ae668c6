import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.impl.recovery.AutorecoveringConnection;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The client's automatic recovery, with connections cut by a proxy between it and the broker. */
final class RecoveryChecks {
    private RecoveryChecks() {}

    /** A TCP proxy on the loopback that can cut all that goes through it. */
    private static final class Proxy implements Closeable {
        private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final ConcurrentLinkedQueue<Socket> sockets = new ConcurrentLinkedQueue<>();

        Proxy(String host, int port) throws IOException {
            start(() -> {
                while (!listener.isClosed()) {
                    Socket client = listener.accept();
                    Socket server = new Socket(host, port);
                    sockets.add(client);
                    sockets.add(server);
                    start(() -> copy(client, server));
                    start(() -> copy(server, client));
                }
            });
        }

        private interface Loop {
            void run() throws IOException;
        }

        private static void start(Loop loop) {
            Thread thread = new Thread(() -> {
                try {
                    loop.run();
                } catch (IOException cut) {
                    // what the proxy is for
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        private static void copy(Socket from, Socket to) throws IOException {
            try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
                in.transferTo(out);
            }
        }

        void cut() throws IOException {
            for (Socket socket = sockets.poll(); socket != null; socket = sockets.poll()) {
                socket.close();
            }
        }

        @Override
        public void close() throws IOException {
            listener.close();
            cut();
        }
    }

    /** A recovering connection through a proxy, and the events of its recovery. */
    private static final class Recovering implements Closeable {
        final Proxy proxy;
        final Connection connection;
        final BlockingQueue<String> recovered = new LinkedBlockingQueue<>();

        Recovering(boolean topology) throws Exception {
            ConnectionFactory factory = Harness.factory();
            proxy = new Proxy(factory.getHost(), factory.getPort());
            factory.setHost("127.0.0.1");
            factory.setPort(proxy.listener.getLocalPort());
            factory.setAutomaticRecoveryEnabled(true);
            factory.setTopologyRecoveryEnabled(topology);
            factory.setNetworkRecoveryInterval(50L);
            connection = factory.newConnection();
            ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable recoverable) {
                    recovered.add("recovered");
                }

                @Override
                public void handleRecoveryStarted(Recoverable recoverable) {
                    // the end is what the checks wait for
                }
            });
        }

        void cutAndRecover() throws Exception {
            proxy.cut();
            Harness.next("the recovery", recovered);
        }

        @Override
        public void close() throws IOException {
            connection.abort(2000);
            proxy.close();
        }
    }

    static void register() {
        Harness.check("recovery: connection and channel work again", ctx -> {
            try (Recovering r = new Recovering(true)) {
                Channel channel = r.connection.createChannel();
                r.cutAndRecover();
                String queue = channel.queueDeclare().getQueue();
                channel.basicPublish("", queue, null, Harness.bytes("after"));
                channel.queueDeclarePassive(queue);
                Harness.equal("body", Harness.text(channel.basicGet(queue, true).getBody()), "after");
            }
        });
        Harness.check("recovery: exclusive queue, binding and consumer come back", ctx -> {
            try (Recovering r = new Recovering(true)) {
                Channel channel = r.connection.createChannel();
                String exchange = ctx.name();
                channel.exchangeDeclare(exchange, "topic", false, true, null);
                String queue = channel.queueDeclare(ctx.name(), false, true, true, null).getQueue();
                channel.queueBind(queue, exchange, "k.#");
                BlockingQueue<Delivery> got = ConsumeChecks.consume(channel, queue);
                r.cutAndRecover();
                channel.basicPublish(exchange, "k.1", null, Harness.bytes("after"));
                Harness.equal("body", ConsumeChecks.body(got), "after");
            }
        });
        Harness.check("recovery: a server-named queue gets a new name, and its consumer follows", ctx -> {
            try (Recovering r = new Recovering(true)) {
                Channel channel = r.connection.createChannel();
                String queue = channel.queueDeclare().getQueue();
                channel.queueBind(queue, "amq.direct", queue);
                BlockingQueue<Delivery> got = ConsumeChecks.consume(channel, queue);
                BlockingQueue<String> renamed = new LinkedBlockingQueue<>();
                ((AutorecoveringConnection) r.connection).addQueueRecoveryListener((before, after) -> renamed.add(after));
                r.cutAndRecover();
                String name = Harness.next("the new name", renamed);
                Harness.holds("another name", !name.equals(queue) && name.startsWith("amq.gen-"), name);
                channel.basicPublish("amq.direct", queue, null, Harness.bytes("after"));
                Harness.equal("body", ConsumeChecks.body(got), "after");
            }
        });
        Harness.check("recovery: unacked messages come again, old tags are not sent", ctx -> {
            String queue = ctx.sharedQueue(true);
            ctx.send(queue, "1", "2");
            try (Recovering r = new Recovering(true)) {
                Channel channel = r.connection.createChannel();
                BlockingQueue<Delivery> got = ConsumeChecks.consume(channel, queue);
                long old = Harness.next("the first", got).getEnvelope().getDeliveryTag();
                ConsumeChecks.body(got);
                r.cutAndRecover();
                Delivery first = Harness.next("the first again", got);
                Harness.equal("body", Harness.text(first.getBody()), "1");
                Harness.equal("redelivered", first.getEnvelope().isRedeliver(), true);
                channel.basicAck(old, false); // of before: the client must keep it to itself
                long last = Harness.next("the second again", got).getEnvelope().getDeliveryTag();
                channel.basicAck(last, true);
                channel.queueDeclarePassive(queue);
            }
            Harness.until("both acked", () -> ctx.channel().consumerCount(queue) == 0L && ctx.channel().messageCount(queue) == 0L);
        });
        Harness.check("recovery: qos and confirm mode are set again", ctx -> {
            String queue = ctx.sharedQueue(false);
            try (Recovering r = new Recovering(true)) {
                Channel channel = r.connection.createChannel();
                channel.basicQos(1);
                channel.confirmSelect();
                BlockingQueue<Delivery> got = ConsumeChecks.consume(channel, queue);
                r.cutAndRecover();
                for (String body : List.of("1", "2", "3")) {
                    channel.basicPublish("", queue, null, Harness.bytes(body));
                }
                channel.waitForConfirmsOrDie(10_000);
                Harness.equal("first", ConsumeChecks.body(got), "1");
                Harness.equal("ready", ctx.channel().messageCount(queue), 2L);
            }
        });
        Harness.check("recovery: without topology recovery no consumer comes back", ctx -> {
            String queue = ctx.sharedQueue(false);
            try (Recovering r = new Recovering(false)) {
                Channel channel = r.connection.createChannel();
                ConsumeChecks.consume(channel, queue);
                r.cutAndRecover();
                channel.queueDeclarePassive(queue);
                Harness.until("no consumer", () -> ctx.channel().consumerCount(queue) == 0L);
            }
        });
        Harness.check("recovery: again and again", ctx -> {
            try (Recovering r = new Recovering(true)) {
                Channel channel = r.connection.createChannel();
                String queue = channel.queueDeclare(ctx.name(), false, true, false, null).getQueue();
                BlockingQueue<Delivery> got = ConsumeChecks.consume(channel, queue);
                for (int i = 0; i < 5; i++) {
                    r.cutAndRecover();
                    channel.basicPublish("", queue, null, Harness.bytes("round " + i));
                    Delivery delivery = Harness.next("the delivery", got);
                    Harness.equal("body", Harness.text(delivery.getBody()), "round " + i);
                    channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
                    channel.queueDeclarePassive(queue);
                }
            }
        });
    }
}
