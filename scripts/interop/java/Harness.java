import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Check runner for the Java suite: registration, expectations, time limits, unique names. */
final class Harness {
    static final int CHECK_SECONDS_MAX = 20; // one check; the suite as a whole stays under a minute
    static final int WAIT_SECONDS_MAX = 5; // one wait for a condition inside a check
    private static final List<Entry> CHECKS = new ArrayList<>();

    private Harness() {}

    interface Body {
        void run(Context ctx) throws Exception;
    }

    interface Action {
        void run(Channel channel) throws Exception;
    }

    private static final class Entry {
        final String name;
        final Body body;

        Entry(String name, Body body) {
            this.name = name;
            this.body = body;
        }
    }

    static final class Failed extends Exception {
        private static final long serialVersionUID = 1;

        Failed(String text) {
            super(text);
        }
    }

    /** Registers a check under a name that says what it proves. */
    static void check(String name, Body body) {
        CHECKS.add(new Entry(name, body));
    }

    static void equal(String what, Object got, Object expected) throws Failed {
        if (!Objects.deepEquals(got, expected)) {
            throw new Failed(what + ": expected " + expected + ", got " + got);
        }
    }

    static void holds(String what, boolean condition, Object got) throws Failed {
        if (!condition) {
            throw new Failed("expected " + what + ", got " + got);
        }
    }

    static void until(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS_MAX);
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new Failed("timed out waiting for " + what);
            }
            Thread.sleep(5);
        }
    }

    /** The next element of a queue that a listener fills. */
    static <T> T next(String what, BlockingQueue<T> queue) throws Exception {
        T element = queue.poll(WAIT_SECONDS_MAX, TimeUnit.SECONDS);
        if (element == null) {
            throw new Failed("timed out waiting for " + what);
        }
        return element;
    }

    /** Runs action on a fresh channel, which the server must close with this code and text. */
    static void closesChannel(Context ctx, int code, String text, Action action) throws Exception {
        Channel channel = ctx.connection().createChannel();
        try {
            action.run(channel);
        } catch (IOException | ShutdownSignalException expected) {
            // its cause is the channel's close reason, which is looked at below
        }
        until("the channel to be closed", () -> !channel.isOpen());
        AMQP.Channel.Close close = (AMQP.Channel.Close) channel.getCloseReason().getReason();
        equal("reply code", close.getReplyCode(), code);
        holds("a text containing \"" + text + "\"", close.getReplyText().contains(text), close.getReplyText());
        holds("the connection to be open", ctx.connection().isOpen(), "closed");
    }

    /** As closesChannel, for an error that closes the connection. */
    static void closesConnection(Context ctx, int code, String text, Action action) throws Exception {
        Connection connection = ctx.connect();
        Channel channel = connection.createChannel();
        try {
            action.run(channel);
        } catch (IOException | ShutdownSignalException expected) {
            // as above
        }
        until("the connection to be closed", () -> !connection.isOpen());
        AMQP.Connection.Close close = (AMQP.Connection.Close) connection.getCloseReason().getReason();
        equal("reply code", close.getReplyCode(), code);
        holds("a text containing \"" + text + "\"", close.getReplyText().contains(text), close.getReplyText());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** A factory for $AMQP_URL without automatic recovery. */
    static ConnectionFactory factory() throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        String url = Objects.requireNonNullElse(System.getenv("AMQP_URL"), "amqp://guest:guest@127.0.0.1:5672/");
        factory.setUri(url.endsWith("/") ? url.substring(0, url.length() - 1) : url); // "/" would be the empty vhost
        factory.setAutomaticRecoveryEnabled(false);
        factory.setConnectionTimeout(WAIT_SECONDS_MAX * 1000);
        factory.setChannelRpcTimeout(WAIT_SECONDS_MAX * 1000);
        return factory;
    }

    /** What a check works with: a connection and a channel opened on demand, unique names, clean-up. */
    static final class Context {
        private final String prefix = "interop-java-" + UUID.randomUUID().toString().substring(0, 13);
        private final List<Connection> connections = new ArrayList<>();
        private final List<Action> cleanup = new ArrayList<>();
        private int count;
        private Connection connection;
        private Channel channel;

        Connection connect() throws Exception {
            return connect(factory());
        }

        Connection connect(ConnectionFactory factory) throws Exception {
            Connection opened = factory.newConnection();
            connections.add(opened);
            return opened;
        }

        Connection connection() throws Exception {
            if (connection == null) {
                connection = connect();
            }
            return connection;
        }

        Channel channel() throws Exception {
            if (channel == null) {
                channel = connection().createChannel();
            }
            return channel;
        }

        String name() {
            count++;
            return prefix + "-" + count;
        }

        /** Declares an exclusive queue; key, value, … are its arguments. */
        String queue(Object... arguments) throws Exception {
            String name = name();
            channel().queueDeclare(name, false, true, false, table(arguments));
            return name;
        }

        /** Declares a queue that other connections see; deleted after the check. */
        String sharedQueue(boolean durable, Object... arguments) throws Exception {
            String name = name();
            channel().queueDeclare(name, durable, false, false, table(arguments));
            later(clean -> clean.queueDelete(name));
            return name;
        }

        String exchange(String type, Object... arguments) throws Exception {
            String name = name();
            channel().exchangeDeclare(name, type, false, false, table(arguments));
            later(clean -> clean.exchangeDelete(name));
            return name;
        }

        /** Publishes bodies to a queue and waits until they are there. */
        void send(String queue, String... bodies) throws Exception {
            for (String body : bodies) {
                channel().basicPublish("", queue, null, bytes(body));
            }
            channel().queueDeclarePassive(queue);
        }

        String bound(String exchange, String key, Object... arguments) throws Exception {
            String queue = queue();
            channel().queueBind(queue, exchange, key, table(arguments));
            return queue;
        }

        /** Gets and acks all that is ready. */
        List<String> drain(String queue) throws Exception {
            List<String> bodies = new ArrayList<>();
            for (;;) {
                GetResponse got = channel().basicGet(queue, true);
                if (got == null) {
                    return bodies;
                }
                bodies.add(text(got.getBody()));
            }
        }

        /** Waits for the next message of a queue. */
        GetResponse await(String queue) throws Exception {
            GetResponse[] got = new GetResponse[1];
            until("a message in " + queue, () -> (got[0] = channel().basicGet(queue, true)) != null);
            return got[0];
        }

        void later(Action action) {
            cleanup.add(action);
        }

        void close() throws Exception {
            for (Connection opened : connections) {
                try {
                    opened.close(2000);
                } catch (IOException | AlreadyClosedException alreadyClosed) {
                    // provoked by the check
                }
            }
            if (cleanup.isEmpty()) {
                return;
            }
            try (Connection clean = factory().newConnection()) {
                for (Action action : cleanup) {
                    Channel fresh = clean.createChannel();
                    action.run(fresh);
                    fresh.close();
                }
            }
        }
    }

    static Map<String, Object> table(Object... pairs) {
        Map<String, Object> table = new java.util.HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            table.put((String) pairs[i], pairs[i + 1]);
        }
        return table;
    }

    /** Appends a line to the file that scores reads (scores/doc.go); without one, nothing. */
    private static void report(String... fields) throws IOException {
        String path = System.getenv("INTEROP_RESULTS");
        if (path == null || path.isEmpty()) {
            return;
        }
        String[] clean = Arrays.stream(fields).map(field -> field.replaceAll("\\s+", " ")).toArray(String[]::new);
        Files.writeString(Path.of(path), String.join("\t", clean) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Runs the checks whose name contains one of the words (none: all); returns the exit status. */
    static int run(String[] words) throws Exception {
        boolean verbose = System.getenv("VERBOSE") != null;
        int passed = 0;
        int failed = 0;
        report("client", Objects.requireNonNullElse(System.getenv("CLIENT_VERSION"), "amqp-client"));
        ExecutorService runner = Executors.newCachedThreadPool(body -> {
            Thread thread = new Thread(body);
            thread.setDaemon(true);
            return thread;
        });
        for (Entry entry : CHECKS) {
            if (words.length > 0 && Arrays.stream(words).noneMatch(entry.name::contains)) {
                continue;
            }
            Context ctx = new Context();
            String problem = limited(runner, () -> {
                entry.body.run(ctx);
                return null;
            });
            if (problem == null) {
                passed++;
                report("pass", entry.name);
                if (verbose) {
                    System.out.println("ok   " + entry.name);
                }
            } else {
                failed++;
                report("fail", entry.name, problem);
                System.out.println("FAIL " + entry.name + ": " + problem);
            }
            String dirt = limited(runner, () -> {
                ctx.close();
                return null;
            });
            if (dirt != null) {
                System.out.println("     clean-up after " + entry.name + ": " + dirt);
            }
        }
        report("done");
        System.out.println(passed + " passed, " + failed + " failed");
        return passed > 0 && failed == 0 ? 0 : 1;
    }

    /** Runs a body under the time limit; returns what went wrong, or null. */
    private static String limited(ExecutorService runner, Callable<Void> body) throws InterruptedException {
        Future<Void> future = runner.submit(body);
        try {
            future.get(CHECK_SECONDS_MAX, TimeUnit.SECONDS);
            return null;
        } catch (TimeoutException e) {
            future.cancel(true);
            return "longer than " + CHECK_SECONDS_MAX + " s";
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            if (cause instanceof Failed) {
                return cause.getMessage();
            }
            StackTraceElement[] at = cause.getStackTrace();
            return cause + " " + (cause.getCause() == null ? "" : cause.getCause()) + (at.length > 0 ? " at " + at[0] : "");
        }
    }
}
