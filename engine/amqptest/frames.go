package amqptest

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Message is what Publish sends.
type Message struct {
	Exchange, Key        string
	Body                 string
	Mandatory, Immediate bool
	Persistent           bool
	Properties           *amqp.Properties // overrides Persistent
	FrameMax             uint32           // 0: FrameMinSize
}

// AppendPublish appends the frames of a publish.
func AppendPublish(dst []byte, channel uint16, m Message) []byte {
	dst = amqp.AppendMethodFrame(dst, channel, &amqp.BasicPublish{
		Exchange: []byte(m.Exchange), RoutingKey: []byte(m.Key), Mandatory: m.Mandatory, Immediate: m.Immediate,
	})
	properties := amqp.Properties{}
	if m.Persistent {
		properties = amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	}
	if m.Properties != nil {
		properties = *m.Properties
	}
	dst = amqp.AppendHeaderFrame(dst, channel, uint64(len(m.Body)), properties.Append(nil))
	frameMax := m.FrameMax
	if frameMax == 0 {
		frameMax = amqp.FrameMinSize
	}
	return amqp.AppendBodyFrames(dst, channel, []byte(m.Body), frameMax)
}

// AppendFrame appends any frame, valid or not.
func AppendFrame(dst []byte, typ byte, channel uint16, payload []byte) []byte {
	dst = append(dst, typ)
	dst = binary.BigEndian.AppendUint16(dst, channel)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	dst = append(dst, payload...)
	return append(dst, amqp.FrameEnd)
}

// AppendHeader appends a content header of any class with no properties.
func AppendHeader(dst []byte, channel, class uint16, bodySize uint64) []byte {
	payload := binary.BigEndian.AppendUint16(nil, class)
	payload = append(payload, 0, 0)
	payload = binary.BigEndian.AppendUint64(payload, bodySize)
	return AppendFrame(dst, amqp.FrameHeader, channel, append(payload, 0, 0))
}

// Handshake is everything a client with these options sends before
// connection.open-ok, in one piece: a broker takes it pipelined.
func Handshake(o Options) []byte {
	raw := append([]byte(nil), amqp.ProtocolHeader...)
	raw = amqp.AppendMethodFrame(raw, 0, StartOk(o))
	raw = amqp.AppendMethodFrame(raw, 0, &amqp.ConnectionTuneOk{ChannelMax: o.ChannelMax, FrameMax: o.FrameMax, Heartbeat: o.Heartbeat})
	return amqp.AppendMethodFrame(raw, 0, &amqp.ConnectionOpen{VirtualHost: []byte(o.vhost())})
}

// Options of a handshake; the zero value logs in as guest with no heartbeats
// and the broker's own limits.
type Options struct {
	User, Password string // guest
	VHost          string // "/"
	ChannelMax     uint16
	FrameMax       uint32
	Heartbeat      uint16 // seconds
	// NoCapabilities: announce none of consumer_cancel_notify, connection.blocked
	// and authentication_failure_close.
	NoCapabilities bool
}

func (o Options) vhost() string {
	if o.VHost == "" {
		return "/"
	}
	return o.VHost
}

// StartOk logs in with PLAIN.
func StartOk(o Options) *amqp.ConnectionStartOk {
	if o.User == "" {
		o.User, o.Password = "guest", "guest"
	}
	var capabilities, properties amqp.TableBuilder
	if !o.NoCapabilities {
		capabilities.SetBool("consumer_cancel_notify", true)
		capabilities.SetBool("authentication_failure_close", true)
		capabilities.SetBool("connection.blocked", true)
	}
	properties.SetTable("capabilities", capabilities.Table())
	properties.SetString("connection_name", "amqptest")
	return &amqp.ConnectionStartOk{
		ClientProperties: properties.Table(), Mechanism: []byte("PLAIN"),
		Response: []byte("\x00" + o.User + "\x00" + o.Password), Locale: []byte("en_US"),
	}
}
