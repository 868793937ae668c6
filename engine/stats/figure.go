package stats

// Figure is one of what is sampled: the kinds of counters (with the same
// numbers), and what follows.
type Figure uint8

// Figures besides the kinds.
const (
	DeliverGet Figure = iota + Figure(Kinds) // deliveries and gets of all kinds
	Messages                                 // ready and unacknowledged ones
	Ready                                    //
	Unacked                                  //
	OctetsIn                                 // received by a socket
	OctetsOut                                //
	Reads                                    // of a socket
	Writes                                   //
	FirstEvent                               // and so on, by Event

	figures = FirstEvent + Figure(Events)
)

// names are those of RabbitMQ's management API; empty: it has none.
var names = [figures]string{
	Publish: "publish", PublishIn: "publish_in", PublishOut: "publish_out", Confirm: "confirm",
	ReturnUnroutable: "return_unroutable", DropUnroutable: "drop_unroutable",
	Deliver: "deliver", DeliverNoAck: "deliver_no_ack", Get: "get", GetNoAck: "get_no_ack", GetEmpty: "get_empty",
	Redeliver: "redeliver", Ack: "ack", Reject: "reject", BytesIn: "bytes_in", BytesOut: "bytes_out",
	DeliverGet: "deliver_get", Messages: "messages", Ready: "messages_ready", Unacked: "messages_unacknowledged",
	OctetsIn: "recv_oct", OctetsOut: "send_oct", Reads: "recv_cnt", Writes: "send_cnt",
	FirstEvent + Figure(ConnectionCreated): "connection_created", FirstEvent + Figure(ConnectionClosed): "connection_closed",
	FirstEvent + Figure(ChannelCreated): "channel_created", FirstEvent + Figure(ChannelClosed): "channel_closed",
	FirstEvent + Figure(QueueDeclared): "queue_declared", FirstEvent + Figure(QueueCreated): "queue_created",
	FirstEvent + Figure(QueueDeleted): "queue_deleted",
}

// String is the figure's name in the management API.
func (f Figure) String() string { return names[f] }

// String is the name of the kind in the management API.
func (k Kind) String() string { return names[k] }

// Point is the state of an object at one time.
type Point struct {
	Counts              Counts
	Ready, Unacked      uint64
	OctetsIn, OctetsOut uint64
	Reads, Writes       uint64
	Events              [Events]uint64
}

// Value returns one figure of it.
func (p *Point) Value(f Figure) uint64 {
	switch {
	case f < Figure(Kinds):
		return p.Counts[f]
	case f >= FirstEvent:
		return p.Events[f-FirstEvent]
	}
	switch f {
	case DeliverGet:
		return p.Counts.DeliverGet()
	case Messages:
		return p.Ready + p.Unacked
	case Ready:
		return p.Ready
	case Unacked:
		return p.Unacked
	case OctetsIn:
		return p.OctetsIn
	case OctetsOut:
		return p.OctetsOut
	case Reads:
		return p.Reads
	}
	return p.Writes
}

// A Schema is the figures that a kind of object has samples of.
type Schema []Figure

func schema(kinds []Kind, more ...Figure) Schema {
	s := make(Schema, 0, len(kinds)+len(more))
	for _, k := range kinds {
		s = append(s, Figure(k))
	}
	return append(s, more...)
}

// The schemas.
var (
	delivering = []Kind{Deliver, DeliverNoAck, Get, GetNoAck, GetEmpty, Redeliver, Ack, Reject, BytesIn, BytesOut}
	publishing = append([]Kind{Publish, Confirm, ReturnUnroutable, DropUnroutable}, delivering...)

	ChannelFigures    = schema(publishing, DeliverGet)
	QueueFigures      = schema(append([]Kind{Publish}, delivering...), DeliverGet, Messages, Ready, Unacked)
	ExchangeFigures   = schema([]Kind{PublishIn, PublishOut, DropUnroutable, BytesIn})
	ConnectionFigures = Schema{OctetsIn, OctetsOut, Reads, Writes}
	VHostFigures      = schema(append([]Kind{PublishOut}, publishing...), DeliverGet, Messages, Ready, Unacked, OctetsIn, OctetsOut)
	TotalFigures      = append(VHostFigures[:len(VHostFigures):len(VHostFigures)], events()...)
)

// events are the figures of churn.
func events() (list []Figure) {
	for e := range Events {
		list = append(list, FirstEvent+Figure(e))
	}
	return list
}

// at is the place of a figure in a row; -1: it is not there.
func (s Schema) at(f Figure) int {
	for i, other := range s {
		if other == f {
			return i
		}
	}
	return -1
}
