# frozen_string_literal: true

# Sessions, channels, exchanges, queues, bindings.

module Harness
  check('session: server properties, capabilities, limits') do |ctx|
    properties = ctx.session.server_properties
    %w[product version platform].each { |key| holds("#{key}, a string", properties[key].is_a?(String), properties[key]) }
    %w[publisher_confirms exchange_exchange_bindings basic.nack consumer_cancel_notify].each do |key|
      equal(key, properties['capabilities'][key], true)
    end
    equal('frame_max', ctx.session.frame_max, 131_072)
    holds('channel_max', ctx.session.channel_max.between?(1, 2047), ctx.session.channel_max)
  end

  check('session: a wrong password is an authentication failure') do |ctx|
    raises(Bunny::AuthenticationFailureError, 'guest') { ctx.connect(password: 'not-the-password', user: 'guest', pass: 'not-the-password') }
  end

  check('session: an unknown vhost is NotAllowedError') do |ctx|
    raises(Bunny::NotAllowedError, 'vhost no-such-vhost not found') { ctx.connect(vhost: 'no-such-vhost') }
  end

  check('session: frames of 4096 and a body of 100 kB') do |ctx|
    session = ctx.connect(frame_max: 4096)
    equal('frame_max', session.frame_max, 4096)
    queue = session.create_channel.queue('', exclusive: true)
    body = Random.new(1).bytes(100_000)
    queue.publish(body)
    equal('body', wait_for('the message') { queue.pop[2] }, body)
  end

  check('session: idle for two heartbeats and alive') do |ctx|
    session = ctx.connect(heartbeat: 1)
    equal('heartbeat', session.heartbeat, 1)
    sleep 2.5
    session.create_channel.queue('', exclusive: true)
  end

  check('session: close and open?, queue_exists?, exchange_exists?') do |ctx|
    queue = ctx.shared
    equal('queue', [ctx.session.queue_exists?(queue.name), ctx.session.queue_exists?('interop-missing')], [true, false])
    equal('exchange', [ctx.session.exchange_exists?('amq.topic'), ctx.session.exchange_exists?('interop-missing')], [true, false])
    ctx.session.close
    equal('open', ctx.session.open?, false)
  end

  check('session: blocked callbacks hear nothing while there is room') do |ctx|
    heard = []
    ctx.session.on_blocked { |blocked| heard << blocked.reason }
    ctx.session.on_unblocked { heard << 'unblocked' }
    ctx.channel.confirm_select
    queue = ctx.queue
    100.times { queue.publish('x' * 1000) }
    ctx.channel.wait_for_confirms
    equal('heard', heard, [])
  end

  check('channel: with_channel, close, reopen, fifty at once') do |ctx|
    ctx.session.with_channel { |channel| channel.queue('', exclusive: true) }
    channels = Array.new(50) { ctx.session.create_channel }
    equal('numbers', channels.map(&:number).uniq.size, 50)
    channels.each(&:close)
    ctx.session.create_channel.queue('', exclusive: true)
  end

  check('channel: on_error gets the close, and the connection goes on') do |ctx|
    errors = Queue.new
    channel = ctx.session.create_channel
    channel.on_error { |_, close| errors << [close.reply_code, close.reply_text] }
    channel.default_exchange.channel.ack(42)
    code, text = take('the error', errors)
    equal('code', code, 406)
    holds('the text', text.include?('unknown delivery tag 42'), text)
    ctx.queue
  end

  check('exchange: declare of the four types, delete, durable, auto_delete') do |ctx|
    %w[direct fanout topic headers].each do |type|
      exchange = ctx.channel.send(type, ctx.name, durable: true)
      equal(type, ctx.session.exchange_exists?(exchange.name), true)
      exchange.delete
      equal("#{type} deleted", ctx.session.exchange_exists?(exchange.name), false)
    end
    transient = ctx.channel.direct(ctx.name, auto_delete: true)
    queue = ctx.queue.bind(transient, routing_key: 'k')
    queue.unbind(transient, routing_key: 'k')
    equal('after the last binding', ctx.session.exchange_exists?(transient.name), false)
  end

  check('exchange: a redeclare that differs is PreconditionFailed') do |ctx|
    name = ctx.exchange(:fanout).name
    raises(Bunny::PreconditionFailed, "inequivalent arg 'type' for exchange '#{name}' in vhost '/': received 'direct' but current is 'fanout'") do
      ctx.session.create_channel.direct(name)
    end
  end

  check('exchange: passive and missing is NotFound') do |ctx|
    raises(Bunny::NotFound, "no exchange 'interop-missing' in vhost '/'") { ctx.session.create_channel.direct('interop-missing', passive: true) }
  end

  check('exchange: if_unused delete of a bound one is PreconditionFailed') do |ctx|
    exchange = ctx.exchange(:direct)
    ctx.queue.bind(exchange, routing_key: 'k')
    raises(Bunny::PreconditionFailed, 'in use') { ctx.session.create_channel.exchange_delete(exchange.name, if_unused: true) }
  end

  check('exchange: an internal one takes no publishes') do |ctx|
    exchange = ctx.exchange(:fanout, internal: true)
    closes(ctx, "cannot publish to internal exchange '#{exchange.name}' in vhost '/'") { |channel| channel.basic_publish('m', exchange.name, '') }
  end

  check('exchange: bind and unbind to another exchange') do |ctx|
    source = ctx.exchange(:topic)
    destination = ctx.exchange(:fanout)
    queue = ctx.queue.bind(destination)
    destination.bind(source, routing_key: 'a.#')
    source.publish('yes', routing_key: 'a.b')
    equal('bound', ctx.drain(queue), ['yes'])
    destination.unbind(source, routing_key: 'a.#')
    source.publish('no', routing_key: 'a.b')
    equal('unbound', ctx.drain(queue), [])
  end

  check('routing: direct, topic, fanout, headers') do |ctx|
    direct = ctx.exchange(:direct)
    topic = ctx.exchange(:topic)
    headers = ctx.exchange(:headers)
    queue = ctx.queue.bind(direct, routing_key: 'k').bind(topic, routing_key: '*.b.#')
    queue.bind(headers, arguments: { 'x-match' => 'any', 'h' => 1, 'i' => 'x' })
    %w[k j].each { |key| direct.publish("direct #{key}", routing_key: key) }
    %w[a.b a.b.c b a.a.b].each { |key| topic.publish("topic #{key}", routing_key: key) }
    [{ 'h' => 1 }, { 'i' => 'y' }, { 'i' => 'x', 'h' => 2 }].each_with_index { |table, i| headers.publish("headers #{i}", headers: table) }
    equal('got', ctx.drain(queue), ['direct k', 'topic a.b', 'topic a.b.c', 'headers 0', 'headers 2'])
  end

  check('queue: server-named, temporary, its flags') do |ctx|
    queue = ctx.channel.temporary_queue
    holds('amq.gen-', queue.name.start_with?('amq.gen-'), queue.name)
    equal('exclusive', queue.exclusive?, true)
    raises(Bunny::ResourceLocked, 'RESOURCE_LOCKED') { ctx.connect.create_channel.queue(queue.name, passive: true) }
  end

  check('queue: message_count, consumer_count, status') do |ctx|
    queue = ctx.queue
    ctx.send(queue, '1', '2')
    equal('status', queue.status, { message_count: 2, consumer_count: 0 })
    queue.subscribe(manual_ack: true) { nil }
    equal('consumers', queue.consumer_count, 1)
  end

  check('queue: a redeclare that differs is PreconditionFailed') do |ctx|
    name = ctx.shared(durable: true).name
    raises(Bunny::PreconditionFailed, "inequivalent arg 'durable' for queue '#{name}' in vhost '/'") { ctx.session.create_channel.queue(name) }
  end

  check('queue: purge and delete') do |ctx|
    queue = ctx.queue
    ctx.send(queue, '1', '2')
    queue.purge
    equal('purged', queue.message_count, 0)
    equal('deleted', queue.delete.message_count, 0)
    raises(Bunny::NotFound, "no queue '#{queue.name}' in vhost '/'") { ctx.session.create_channel.queue(queue.name, passive: true) }
  end

  check('queue: delete if_empty and if_unused are PreconditionFailed when they do not hold') do |ctx|
    queue = ctx.queue
    ctx.send(queue, '1')
    raises(Bunny::PreconditionFailed, 'not empty') { ctx.session.create_channel.queue_delete(queue.name, if_empty: true) }
    queue.subscribe(manual_ack: true) { nil }
    raises(Bunny::PreconditionFailed, 'in use') { ctx.session.create_channel.queue_delete(queue.name, if_unused: true) }
  end

  check('queue: unbind, and a bind to what is missing') do |ctx|
    exchange = ctx.exchange(:direct)
    queue = ctx.queue.bind(exchange, routing_key: 'a').bind(exchange, routing_key: 'b')
    queue.unbind(exchange, routing_key: 'a')
    %w[a b].each { |key| exchange.publish(key, routing_key: key) }
    equal('got', ctx.drain(queue), ['b'])
    raises(Bunny::NotFound, "no exchange 'interop-missing'") { ctx.session.create_channel.queue_bind(queue.name, 'interop-missing') }
  end

  check('queue: auto_delete goes with its last consumer') do |ctx|
    queue = ctx.channel.queue(ctx.name, auto_delete: true)
    queue.subscribe { nil }.cancel
    equal('exists', ctx.session.queue_exists?(queue.name), false)
  end
end
