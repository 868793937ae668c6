# frozen_string_literal: true

# Publishing, confirms, returns, transactions, getting, consuming, settling.

module Harness
  check('publish: all properties come back') do |ctx|
    queue = ctx.queue
    sent = { content_type: 'text/plain', content_encoding: 'utf-8', priority: 3, correlation_id: 'c', reply_to: 'r', expiration: '60000',
             message_id: 'm', timestamp: 1_700_000_000, type: 't', user_id: 'guest', app_id: 'a', delivery_mode: 1 }
    ctx.send(queue, 'm', **sent)
    _, properties, = queue.pop
    sent[:timestamp] = Time.at(sent[:timestamp])
    sent.each { |key, value| equal(key, properties[key], value) }
  end

  { 'string' => 'text', 'unicode' => 'süß'.b, 'integer' => 42, 'negative' => -5, 'large' => 1 << 40, 'float' => 2.5, 'true' => true, 'false' => false,
    'nil' => nil, 'time' => Time.at(1_700_000_000), 'array' => [1, 'a', [2, ['b']]], 'table' => { 'a' => { 'b' => [1, { 'c' => 'd' }] } },
    'empty table' => {} }.each do |kind, value|
    check("headers: #{kind}") do |ctx|
      queue = ctx.queue
      ctx.send(queue, 'm', headers: { 'v' => value })
      equal('value', queue.pop[1].headers['v'], value)
    end
  end

  [0, 1, 131_064, 131_065, 1 << 20, 8 << 20].each do |size|
    check("body: #{size} bytes") do |ctx|
      queue = ctx.queue
      body = Random.new(size).bytes(size)
      queue.publish(body)
      equal('same', wait_for('the message') { queue.pop[2] } == body, true)
    end
  end

  check('publish: persistent and mandatory to a durable queue, confirmed') do |ctx|
    queue = ctx.shared(durable: true)
    ctx.channel.confirm_select
    500.times { |i| queue.publish(i.to_s, persistent: true, mandatory: true) }
    equal('all confirmed', ctx.channel.wait_for_confirms, true)
    equal('nacked', ctx.channel.nacked_set.to_a, [])
    equal('queued', queue.message_count, 500)
  end

  check('confirm: a callback hears each number') do |ctx|
    confirmed = Queue.new
    ctx.channel.confirm_select(->(tag, multiple, nack) { confirmed << [tag, multiple, nack] })
    equal('next number', ctx.channel.next_publish_seq_no, 1)
    queue = ctx.queue
    20.times { queue.publish('m') }
    ctx.channel.wait_for_confirms
    heard = Array.new(confirmed.size) { confirmed.pop }
    equal('last', heard.last[0], 20)
    equal('nacks', heard.select { |entry| entry[2] }, [])
  end

  check('return: on_return gets code, text, exchange, key, body') do |ctx|
    returned = Queue.new
    exchange = ctx.exchange(:direct)
    exchange.on_return { |info, properties, body| returned << [info.reply_code, info.reply_text, info.exchange, info.routing_key, properties.message_id, body] }
    exchange.publish('back', routing_key: 'nowhere', mandatory: true, message_id: 'm')
    equal('returned', take('the return', returned), [312, 'NO_ROUTE', exchange.name, 'nowhere', 'm', 'back'])
  end

  check('publish: to a missing exchange is 404 for the channel') do |ctx|
    closes(ctx, "no exchange 'interop-missing' in vhost '/'") { |channel| channel.basic_publish('m', 'interop-missing', 'k') }
  end

  check('tx: commit and rollback') do |ctx|
    queue = ctx.shared
    channel = ctx.session.create_channel
    channel.tx_select
    channel.default_exchange.publish('1', routing_key: queue.name)
    equal('before', queue.message_count, 0)
    channel.tx_commit
    channel.default_exchange.publish('2', routing_key: queue.name)
    channel.tx_rollback
    equal('got', ctx.drain(queue), ['1'])
    raises(Bunny::PreconditionFailed, 'cannot switch from tx to confirm mode') { channel.confirm_select }
  end

  check('get: empty, delivery info, redelivered') do |ctx|
    queue = ctx.queue
    equal('empty', queue.pop, [nil, nil, nil])
    ctx.send(queue, '1', '2')
    info, _, body = queue.pop(manual_ack: true)
    equal('first', [info.exchange, info.routing_key, info.redelivered?, body], ['', queue.name, false, '1'])
    ctx.channel.nack(info.delivery_tag, false, true)
    info, _, body = queue.pop(manual_ack: true)
    equal('again', [info.redelivered?, body], [true, '1'])
    ctx.channel.ack(info.delivery_tag)
    equal('rest', ctx.drain(queue), ['2'])
  end

  check('settle: ack and nack multiple, reject with and without requeue') do |ctx|
    queue = ctx.queue
    ctx.send(queue, *%w[1 2 3 4 5 6])
    tags = Array.new(6) { queue.pop(manual_ack: true)[0].delivery_tag }
    ctx.channel.ack(tags[1], true)
    ctx.channel.reject(tags[2], true)
    ctx.channel.reject(tags[3], false)
    ctx.channel.nack(tags[5], true, true)
    equal('left', ctx.drain(queue), %w[3 5 6])
  end

  check('recover: unacked come again') do |ctx|
    queue = ctx.queue
    ctx.send(queue, '1', '2')
    2.times { queue.pop(manual_ack: true) }
    ctx.channel.recover
    equal('again', ctx.drain(queue), %w[1 2])
  end

  check('subscribe: in order, with delivery tags, metadata') do |ctx|
    queue = ctx.queue
    got = Queue.new
    queue.subscribe { |info, properties, body| got << [info.delivery_tag, info.consumer_tag, properties.content_type, body] }
    ctx.send(queue, *(1..500).map(&:to_s), content_type: 'text/plain')
    all = Array.new(500) { take('a delivery', got) }
    equal('bodies', all.map(&:last), (1..500).map(&:to_s))
    equal('tags', all.map(&:first), (1..500).to_a)
    equal('content type', all.first[2], 'text/plain')
  end

  check('subscribe: manual_ack, and what is not acked goes back') do |ctx|
    queue = ctx.shared
    channel = ctx.session.create_channel
    got = Queue.new
    channel.queue(queue.name, passive: true).subscribe(manual_ack: true) { |info, _, body| got << [info.delivery_tag, body] }
    ctx.send(queue, '1', '2', '3')
    3.times { take('a delivery', got).then { |tag, body| channel.ack(tag) if body == '2' } }
    channel.close
    equal('left', wait_for('both back') { queue.message_count == 2 } && ctx.drain(queue), %w[1 3])
  end

  check('subscribe: exclusive, and AccessRefused for a second one') do |ctx|
    queue = ctx.shared
    queue.subscribe(exclusive: true) { nil }
    raises(Bunny::AccessRefused, 'in exclusive use') { ctx.session.create_channel.queue(queue.name, passive: true).subscribe { nil } }
  end

  check('subscribe: cancel, and on_cancellation when the queue is deleted') do |ctx|
    queue = ctx.shared
    consumer = queue.subscribe { nil }
    consumer.cancel
    equal('consumers', queue.consumer_count, 0)
    cancelled = Queue.new
    queue.subscribe(on_cancellation: ->(cancel) { cancelled << cancel.consumer_tag }, consumer_tag: 'mine') { nil }
    ctx.connect.create_channel.queue_delete(queue.name)
    equal('cancelled', take('the cancellation', cancelled), 'mine')
  end

  check('subscribe: a Bunny::Consumer of one\'s own') do |ctx|
    queue = ctx.queue
    got = Queue.new
    consumer = Bunny::Consumer.new(ctx.channel, queue, 'own-tag', true, false, 'x-interop' => 1)
    consumer.on_delivery { |_, _, body| got << body }
    queue.subscribe_with(consumer)
    ctx.send(queue, '1')
    equal('got', take('the delivery', got), '1')
  end

  check('qos: prefetch per consumer and for the channel') do |ctx|
    queue = ctx.queue
    got = Queue.new
    ctx.send(queue, *%w[1 2 3 4 5])
    ctx.channel.prefetch(2)
    consumer = queue.subscribe(manual_ack: true) { |info, _, body| got << [info.delivery_tag, body] }
    take('the first', got)
    tag, = take('the second', got)
    equal('ready', queue.message_count, 3)
    ctx.channel.ack(tag)
    equal('third', take('the third', got)[1], '3')
    consumer.cancel
    ctx.channel.basic_qos(1, true)
  end

  check('subscribe: two consumers share in turn') do |ctx|
    queue = ctx.queue
    counts = [0, 0]
    2.times { |i| queue.subscribe { counts[i] += 1 } }
    ctx.send(queue, *%w[1 2 3 4 5 6])
    wait_for('six') { counts.sum == 6 }
    equal('shares', counts, [3, 3])
  end

  check('recovery: the session reconnects, the consumer comes back') do |ctx|
    session = ctx.connect(automatically_recover: true, network_recovery_interval: 0.05, recover_from_connection_close: true)
    channel = session.create_channel
    got = Queue.new
    queue = channel.queue(ctx.name, exclusive: true)
    exchange = channel.topic(ctx.name, auto_delete: true)
    queue.bind(exchange, routing_key: '#')
    queue.subscribe { |_, _, body| got << body }
    recovered = Queue.new
    session.after_recovery_completed { recovered << true }
    session.transport.socket.shutdown
    take('the recovery', recovered)
    exchange.publish('after', routing_key: 'k')
    equal('got', take('the delivery', got), 'after')
  end
end
