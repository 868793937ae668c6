package amqp

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/basaltmq/basaltmq/engine/secure/proxyproto"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Methods of class connection, in the order of the handshake (specification
// 2.2.4), and closing.
//
// Codes: 403 login refused, 501 frame errors, 503 a mechanism or method out of
// place, 504 a method that does not fit the state, 530 tuning refused or no
// such vhost.

// protocolHeader handles the first eight bytes: 0 while they are incomplete.
// Any other protocol is answered with ours, and the socket is closed (4.2.2).
func (c *conn) protocolHeader(buf []byte) int {
	n := min(len(buf), len(amqp.ProtocolHeader))
	// 0-9 clients send 1 1 0 9 behind the name; what they speak is 0-9-1 enough.
	old := []byte("AMQP\x01\x01\x00\x09")
	if !bytes.Equal(buf[:n], amqp.ProtocolHeader[:n]) && !bytes.Equal(buf[:n], old[:n]) {
		hint := "the client does not speak AMQP 0-9-1"
		if proxyproto.Starts(buf) {
			hint = "it begins with a PROXY header, and its address is not one of amqp.proxy_trusted_sources"
		}
		c.shard.srv.logger.Warn("bad protocol header", "peer", c.peer(), "reason", hint)
		c.emit(amqp.ProtocolHeader)
		c.closeSocket()
		return len(buf)
	}
	if n < len(amqp.ProtocolHeader) {
		return 0
	}
	c.state = stateStart
	c.emit(c.shard.greeting(c.saslPeer()))
	return n
}

// greeting is the frame of connection.start for a peer. It differs in the
// mechanisms alone, so it is made once for each choice of them.
func (sh *shard) greeting(p Peer) []byte {
	var offered uint64
	for i, m := range sh.srv.mechanisms {
		if m.Offered(p) {
			offered |= 1 << i
		}
	}
	frame := sh.greetings[offered]
	if frame == nil {
		frame = amqp.AppendMethodFrame(nil, 0, &amqp.ConnectionStart{
			VersionMajor: 0, VersionMinor: 9, ServerProperties: sh.srv.properties(),
			Mechanisms: sh.srv.mechanismNames(p), Locales: []byte("en_US"),
		})
		if sh.greetings == nil {
			sh.greetings = map[uint64][]byte{}
		}
		sh.greetings[offered] = frame
	}
	return frame
}

func (s *Server) properties() amqp.Table {
	var capabilities, properties amqp.TableBuilder
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
		"consumer_cancel_notify", "connection.blocked", "consumer_priorities", "per_consumer_qos", "direct_reply_to", "authentication_failure_close",
	} {
		capabilities.SetBool(name, true)
	}
	properties.SetTable("capabilities", capabilities.Table())
	properties.SetString("product", "BasaltMQ")
	properties.SetString("version", s.version)
	properties.SetString("platform", "Go "+runtime.Version()[2:])
	properties.SetString("information", "Licensed under the Apache License 2.0")
	return properties.Table()
}

// method0 dispatches methods on channel 0.
func (c *conn) method0(id uint32, args []byte) error {
	if c.state == stateClosing {
		switch id {
		case amqp.ConnectionCloseOkID:
			c.state = stateClosed
			c.sock.Close() // the peer has read everything: no need to linger
		case amqp.ConnectionCloseID: // both sides closed at once
			c.emitMethod(0, &amqp.ConnectionCloseOk{})
			c.closeSocket()
		}
		return nil
	}
	switch {
	case id == amqp.ConnectionStartOkID && c.state == stateStart && c.shard.attempts[c] == nil:
		return c.startOk(args)
	case id == amqp.ConnectionSecureOkID && c.state == stateStart:
		return c.secureOk(args)
	case id == amqp.ConnectionTuneOkID && c.state == stateTune:
		return c.tuneOk(args)
	case id == amqp.ConnectionOpenID && c.state == stateOpening:
		return c.open(args)
	case id == amqp.ConnectionCloseID && c.state > stateStart:
		return c.closeByClient(args)
	case id == amqp.ConnectionUpdateSecretID && c.state == stateOpen:
		return c.updateSecret(args)
	case amqp.MethodName(id) == "unknown":
		return amqp.Errorf(amqp.CodeNotImplemented, id, "unknown method %d.%d", id>>16, id&0xffff)
	}
	return amqp.Errorf(amqp.CodeChannelError, id, "unexpected method %s in connection state %s", amqp.MethodName(id), stateNames[c.state])
}

var stateNames = [...]string{"handshake", "starting", "tuning", "opening", "running", "closing", "closed"}

func (c *conn) startOk(args []byte) error {
	var m amqp.ConnectionStartOk
	if err := m.Decode(args); err != nil {
		return err
	}
	if v, ok := m.ClientProperties.Lookup("connection_name"); ok {
		if name, ok := v.Bytes(); ok {
			c.name = string(name)
		}
	}
	if c.client == nil {
		c.client = c.shard.srv.clients.take(m.Mechanism, m.ClientProperties)
	}
	if v, ok := m.ClientProperties.Lookup("capabilities"); ok {
		if capabilities, ok := v.Table(); ok {
			announced := func(name string) bool {
				v, _ := capabilities.Lookup(name)
				on, _ := v.Bool()
				return on
			}
			c.closeOnErr = announced("authentication_failure_close")
			c.cancelNotify = announced("consumer_cancel_notify")
			c.blockNotify = announced("connection.blocked")
		}
	}
	return c.login(m.Mechanism, m.Response)
}

// tune proposes the limits of the connection.
func (c *conn) tune() {
	c.emitMethod(0, &amqp.ConnectionTune{
		ChannelMax: c.channelMax, FrameMax: c.frameMax, Heartbeat: c.shard.srv.tuning.Load().heartbeatSeconds(),
	})
}

func (c *conn) tuneOk(args []byte) error {
	var m amqp.ConnectionTuneOk
	if err := m.Decode(args); err != nil {
		return err
	}
	refuse := func(what string, got, limit uint32) error {
		return amqp.Errorf(amqp.CodeNotAllowed, amqp.ConnectionTuneOkID, "negotiated %s = %d is higher than the maximum allowed value (%d)", what, got, limit)
	}
	// 0 means "no limit" and is above ours (RabbitMQ refuses it likewise).
	switch {
	case m.FrameMax != 0 && m.FrameMax < amqp.FrameMinSize:
		return amqp.Errorf(amqp.CodeNotAllowed, amqp.ConnectionTuneOkID, "negotiated frame_max = %d is lower than the minimum allowed value (%d)", m.FrameMax, amqp.FrameMinSize)
	case m.FrameMax > c.frameMax:
		return refuse("frame_max", m.FrameMax, c.frameMax)
	case m.ChannelMax > c.channelMax:
		return refuse("channel_max", uint32(m.ChannelMax), uint32(c.channelMax))
	}
	if m.FrameMax != 0 {
		c.frameMax = m.FrameMax
	}
	if m.ChannelMax != 0 {
		c.channelMax = m.ChannelMax
	}
	c.heartbeat = time.Duration(m.Heartbeat) * time.Second
	c.state = stateOpening
	return nil
}

func (c *conn) open(args []byte) error {
	var m amqp.ConnectionOpen
	if err := m.Decode(args); err != nil {
		return err
	}
	name := string(m.VirtualHost)
	vh := c.shard.srv.broker.VHost(name)
	if vh == nil {
		return amqp.Errorf(amqp.CodeNotAllowed, amqp.ConnectionOpenID, "vhost %s not found", name)
	}
	if err := c.enter(vh); err != nil {
		return err
	}
	c.state = stateOpen
	c.connectedAt = c.shard.loop.Now().UnixMilli()
	c.shard.loop.Disarm(&c.timer)
	if c.heartbeat > 0 {
		c.shard.loop.Arm(&c.timer, c.heartbeat/2)
	}
	c.emitMethod(0, &amqp.ConnectionOpenOk{})
	if log := c.shard.srv.logger; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("AMQP connection open", "peer", c.peer(), "user", c.user.Name, "vhost", name)
	}
	if c.shard.closing {
		c.shutdown()
	}
	// Either this sees a deletion, or the deletion sees the connection.
	c.heedRevocation()
	return nil
}

func (c *conn) closeByClient(args []byte) error {
	var m amqp.ConnectionClose
	if err := m.Decode(args); err != nil {
		return err
	}
	if m.ReplyCode != amqp.CodeSuccess && m.ReplyCode != 0 {
		c.shard.srv.logger.Info("client closes its connection", "peer", c.peer(), "code", m.ReplyCode, "reason", string(m.ReplyText))
	}
	c.abandonChannels()
	c.emitMethod(0, &amqp.ConnectionCloseOk{})
	c.closeSocket()
	return nil
}
