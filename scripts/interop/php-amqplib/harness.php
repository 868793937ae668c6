<?php

declare(strict_types=1);

// Check runner for the php-amqplib suite: registration, expectations, time limits, unique names.

require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AbstractConnection;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPTimeoutException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const CHECK_SECONDS_MAX = 20; // one check; the suite as a whole stays under a minute
const WAIT_SECONDS_MAX = 5; // one wait for a condition inside a check

final class Failed extends Exception
{
}

final class Checks
{
    /** @var array<string, callable(Context): void> */
    public static array $all = [];
}

function check(string $name, callable $body): void
{
    if (isset(Checks::$all[$name])) {
        throw new LogicException("two checks are called $name");
    }
    Checks::$all[$name] = $body;
}

function show(mixed $value): string
{
    $text = json_encode($value, JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR);
    return $text === false ? gettype($value) : $text;
}

function equal(string $what, mixed $got, mixed $expected): void
{
    if ($got !== $expected) {
        throw new Failed("$what: expected " . show($expected) . ', got ' . show($got));
    }
}

function holds(string $what, bool $condition, mixed $got = null): void
{
    if (!$condition) {
        throw new Failed("expected $what, got " . show($got));
    }
}

/** Runs an action, which must end in an exception with this code and a message that contains the text. */
function raises(int $code, string $text, callable $action): void
{
    try {
        $got = $action();
    } catch (PhpAmqpLib\Exception\AMQPProtocolException | PhpAmqpLib\Exception\AMQPConnectionClosedException $e) {
        equal('reply code', $e->getCode(), $code); // the first for a channel, the second for a connection
        holds("a text containing '$text'", str_contains($e->getMessage(), $text), $e->getMessage());
        return;
    } catch (Exception $e) {
        throw new Failed("expected $code $text, got " . $e::class . ' ' . $e->getMessage());
    }
    throw new Failed("expected $code $text, but the call returned " . show($got));
}

/** Asks again and again until the condition gives something that is not false or null, and returns it. */
function until(string $what, callable $condition): mixed
{
    $deadline = microtime(true) + WAIT_SECONDS_MAX;
    while (!($got = $condition())) {
        if (microtime(true) > $deadline) {
            throw new Failed("timed out waiting for $what");
        }
        usleep(5000);
    }
    return $got;
}

/** What a check works with: a connection and a channel opened on demand, unique names, clean-up. */
final class Context
{
    private string $prefix;
    private int $count = 0;
    /** @var list<AbstractConnection> */
    private array $connections = [];
    /** @var list<callable(AMQPChannel): mixed> */
    private array $cleanup = [];
    private ?AbstractConnection $own = null;
    private ?AMQPChannel $ownChannel = null;

    public function __construct()
    {
        $this->prefix = 'interop-php-' . bin2hex(random_bytes(6));
    }

    /** Opens a connection to $AMQP_URL; options replace parameters of AMQPStreamConnection. */
    public function connect(string $class = AMQPStreamConnection::class, mixed ...$options): AbstractConnection
    {
        $connection = new $class(...$this->parameters($options));
        $this->connections[] = $connection;
        return $connection;
    }

    /** @return array<string, mixed> */
    public function parameters(array $options = []): array
    {
        $url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@127.0.0.1:5672/');
        $path = rawurldecode(substr($url['path'] ?? '/', 1));
        return $options + ['host' => $url['host'], 'port' => $url['port'] ?? 5672, 'user' => $url['user'] ?? 'guest',
            'password' => $url['pass'] ?? 'guest', 'vhost' => $path === '' ? '/' : $path];
    }

    public function connection(): AbstractConnection
    {
        return $this->own ??= $this->connect();
    }

    public function channel(): AMQPChannel
    {
        return $this->ownChannel ??= $this->connection()->channel();
    }

    public function name(): string
    {
        return $this->prefix . '-' . ++$this->count;
    }

    public function queue(array $arguments = [], bool $exclusive = true, bool $durable = false): string
    {
        $name = $this->name();
        $this->channel()->queue_declare($name, durable: $durable, exclusive: $exclusive, auto_delete: false, arguments: new AMQPTable($arguments));
        if (!$exclusive) {
            $this->later(fn (AMQPChannel $clean) => $clean->queue_delete($name));
        }
        return $name;
    }

    public function exchange(string $type, array $arguments = [], bool $internal = false): string
    {
        $name = $this->name();
        $this->channel()->exchange_declare($name, $type, auto_delete: false, internal: $internal, arguments: new AMQPTable($arguments));
        $this->later(fn (AMQPChannel $clean) => $clean->exchange_delete($name));
        return $name;
    }

    public function bound(string $exchange, string $key = '', array $arguments = []): string
    {
        $queue = $this->queue();
        $this->channel()->queue_bind($queue, $exchange, $key, arguments: new AMQPTable($arguments));
        return $queue;
    }

    /** Publishes to a queue and waits until it is there. */
    public function send(string $queue, string ...$bodies): void
    {
        foreach ($bodies as $body) {
            $this->channel()->basic_publish(new AMQPMessage($body), '', $queue);
        }
        $this->ready($queue);
    }

    public function publish(string $exchange, string $key, string $body = 'm', array $properties = [], bool $mandatory = false): void
    {
        $this->channel()->basic_publish(new AMQPMessage($body, $properties), $exchange, $key, $mandatory);
    }

    /** The number of ready messages. */
    public function ready(string $queue): int
    {
        return $this->channel()->queue_declare($queue, passive: true)[1];
    }

    /** Gets and acks everything that is ready. @return list<string> */
    public function drain(string $queue): array
    {
        $bodies = [];
        while ($message = $this->channel()->basic_get($queue, true)) {
            $bodies[] = $message->getBody();
        }
        return $bodies;
    }

    public function await(string $queue): AMQPMessage
    {
        return until("a message in $queue", fn () => $this->channel()->basic_get($queue, true));
    }

    /** Lets the channel's callbacks run until the condition holds. */
    public function pump(string $what, callable $condition, ?AMQPChannel $channel = null): void
    {
        until($what, function () use ($condition, $channel) {
            if (!$condition()) {
                try {
                    ($channel ?? $this->channel())->wait(null, false, 0.1);
                } catch (AMQPTimeoutException) {
                    return $condition();
                }
            }
            return $condition();
        });
    }

    public function later(callable $action): void
    {
        $this->cleanup[] = $action;
    }

    public function close(): void
    {
        foreach ($this->connections as $connection) {
            try {
                $connection->close();
            } catch (Exception) {
                // the broker may have closed it
            }
        }
        if ($this->cleanup !== []) {
            $connection = new AMQPStreamConnection(...$this->parameters());
            foreach ($this->cleanup as $action) {
                $action($connection->channel());
            }
            $connection->close();
        }
    }
}

/** Appends a line to the file that scores reads (scores/doc.go); without one, nothing. */
function report(string ...$fields): void
{
    $path = getenv('INTEROP_RESULTS');
    if ($path) {
        $clean = array_map(fn (string $field) => preg_replace('/\s+/', ' ', $field), $fields);
        file_put_contents($path, implode("\t", $clean) . "\n", FILE_APPEND);
    }
}

/** Runs the checks whose name contains one of the words (none: all); returns the exit status. */
function run(array $words): int
{
    pcntl_async_signals(true);
    pcntl_signal(SIGALRM, fn () => throw new Failed('longer than ' . CHECK_SECONDS_MAX . ' s'));
    $passed = $failed = 0;
    report('client', 'php-amqplib ' . PhpAmqpLib\Package::VERSION);
    foreach (Checks::$all as $name => $body) {
        if ($words !== [] && array_filter($words, fn (string $word) => str_contains($name, $word)) === []) {
            continue;
        }
        $context = new Context();
        pcntl_alarm(CHECK_SECONDS_MAX);
        try {
            $body($context);
            $passed++;
            report('pass', $name);
            if (getenv('VERBOSE')) {
                echo "ok   $name\n";
            }
        } catch (Throwable $e) {
            $failed++;
            $detail = $e instanceof Failed ? $e->getMessage() : $e::class . ': ' . $e->getMessage() . ' at ' . basename($e->getFile()) . ':' . $e->getLine();
            report('fail', $name, $detail);
            echo "FAIL $name: $detail\n";
        }
        pcntl_alarm(CHECK_SECONDS_MAX);
        try {
            $context->close();
        } catch (Throwable $e) {
            echo "     clean-up after $name: ", $e->getMessage(), "\n";
        }
        pcntl_alarm(0);
    }
    report('done');
    echo "$passed passed, $failed failed\n";
    return $passed > 0 && $failed === 0 ? 0 : 1;
}
