# frozen_string_literal: true

# Check runner for the bunny suite: registration, expectations, time limits, unique names.

require 'bunny'
require 'logger'
require 'securerandom'
require 'timeout'

# Registers and runs checks; see check and run.
module Harness
  CHECK_SECONDS_MAX = 20 # one check; the suite as a whole stays under a minute
  WAIT_SECONDS_MAX = 5 # one wait for a condition inside a check
  CHECKS = []

  class Failed < StandardError; end

  module_function

  # $AMQP_URL as bunny takes it: a trailing slash would be the vhost with the empty name.
  def url
    (ENV['AMQP_URL'] || 'amqp://guest:guest@127.0.0.1:5672/').chomp('/')
  end

  def check(name, &body)
    CHECKS << [name, body]
  end

  def equal(what, got, expected)
    raise Failed, "#{what}: expected #{expected.inspect}, got #{got.inspect}" unless got == expected
  end

  def holds(what, condition, got = nil)
    raise Failed, "expected #{what}, got #{got.inspect}" unless condition
  end

  # Runs the block, which must raise this error with a message that contains text.
  def raises(kind, text)
    got = yield
  rescue kind => e
    holds("a message containing #{text.inspect}", e.message.include?(text), e.message)
    e
  rescue StandardError => e
    raise Failed, "expected #{kind}, got #{e.inspect}"
  else
    raise Failed, "expected #{kind}, but the call returned #{got.inspect}"
  end

  # A publish that the server answers by closing the channel: bunny tells with the next use of it.
  def closes(ctx, text)
    channel = ctx.session.create_channel
    yield channel
    wait_for('the channel to be closed') { channel.closed? }
    raises(Bunny::ChannelAlreadyClosed, text) { channel.queue('', exclusive: true) }
    ctx.queue
  end

  def wait_for(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + WAIT_SECONDS_MAX
    until (got = yield)
      raise Failed, "timed out waiting for #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.005
    end
    got
  end

  # The next element of a Queue that a callback fills.
  def take(what, queue)
    Timeout.timeout(WAIT_SECONDS_MAX) { queue.pop }
  rescue Timeout::Error
    raise Failed, "timed out waiting for #{what}"
  end

  # What a check works with: a session and a channel opened on demand, unique names, clean-up.
  class Context
    def initialize
      @prefix = "interop-bunny-#{SecureRandom.hex(6)}"
      @sessions = []
      @cleanup = []
      @count = 0
    end

    def connect(options = {})
      session = Bunny.new(Harness.url, { logger: Logger.new(File::NULL), automatically_recover: false,
                                         continuation_timeout: 5000 }.merge(options))
      @sessions << session
      session.start
    end

    def session
      @session ||= connect
    end

    def channel
      @channel ||= session.create_channel
    end

    def name
      @count += 1
      "#{@prefix}-#{@count}"
    end

    def queue(options = {})
      channel.queue(name, { exclusive: true }.merge(options))
    end

    # A queue that other connections see; deleted after the check.
    def shared(options = {})
      queue = channel.queue(name, options)
      later { |clean| clean.queue_delete(queue.name) }
      queue
    end

    def exchange(type, options = {})
      exchange = channel.exchange(name, { type: type }.merge(options))
      later { |clean| clean.exchange_delete(exchange.name) }
      exchange
    end

    # Publishes to a queue and waits until it is there.
    def send(queue, *bodies, **options)
      bodies.each { |body| channel.default_exchange.publish(body, { routing_key: queue.name }.merge(options)) }
      queue.message_count
    end

    # Gets and acks everything that is ready.
    def drain(queue)
      bodies = []
      loop do
        _, _, body = queue.pop
        return bodies if body.nil?

        bodies << body
      end
    end

    def later(&action)
      @cleanup << action
    end

    def close
      @sessions.each do |session|
        session.close if session.open?
      rescue StandardError
        nil # the broker may be closing it at the same moment
      end
      return if @cleanup.empty?

      session = Bunny.new(Harness.url, logger: Logger.new(File::NULL), automatically_recover: false).start
      @cleanup.each { |action| action.call(session.create_channel) }
      session.close
    end
  end

  # Appends a line to the file that scores reads (scores/doc.go); without one, nothing.
  def report(*fields)
    path = ENV['INTEROP_RESULTS']
    return if path.nil? || path.empty?

    File.write(path, "#{fields.map { |field| field.gsub(/\s+/, ' ') }.join("\t")}\n", mode: 'a')
  end

  # Runs the checks whose name contains one of the words (none: all); returns whether all passed.
  def run(words)
    passed = failed = 0
    report('client', "bunny #{Bunny::VERSION}")
    CHECKS.each do |name, body|
      next unless words.empty? || words.any? { |word| name.include?(word) }

      context = Context.new
      begin
        Timeout.timeout(CHECK_SECONDS_MAX) { body.call(context) }
        passed += 1
        report('pass', name)
        puts "ok   #{name}" if ENV['VERBOSE']
      rescue StandardError, ScriptError => e
        failed += 1
        detail = e.is_a?(Failed) ? e.message : "#{e.inspect} #{e.backtrace&.first}"
        report('fail', name, detail)
        puts "FAIL #{name}: #{detail}"
      end
      begin
        Timeout.timeout(CHECK_SECONDS_MAX) { context.close }
      rescue StandardError => e
        puts "     clean-up after #{name}: #{e.inspect}"
      end
      $stdout.flush
    end
    report('done')
    puts "#{passed} passed, #{failed} failed"
    passed.positive? && failed.zero?
  end
end
