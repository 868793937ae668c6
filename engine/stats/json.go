package stats

import (
	"encoding/json"
	"strconv"
)

// MessageStats is the object "message_stats" of RabbitMQ's API: for each figure
// its value and, under the name with "_details", how it changes.
type MessageStats struct {
	view View
	of   []Figure
	span Span
}

// of each kind of object, in the order of the answer.
var (
	channelStats  = messageFigures(ChannelFigures)
	queueStats    = messageFigures(QueueFigures)
	exchangeStats = messageFigures(ExchangeFigures)
	vhostStats    = messageFigures(VHostFigures)
	churnStats    = events()
)

// messageFigures are those that count messages.
func messageFigures(s Schema) (list []Figure) {
	for _, f := range s {
		if f <= DeliverGet {
			list = append(list, f)
		}
	}
	return list
}

// ChannelStats is message_stats of a channel.
func (v View) ChannelStats(span Span) *MessageStats { return &MessageStats{v, channelStats, span} }

// QueueStats is message_stats of a queue.
func (v View) QueueStats(span Span) *MessageStats { return &MessageStats{v, queueStats, span} }

// ExchangeStats is message_stats of an exchange.
func (v View) ExchangeStats(span Span) *MessageStats { return &MessageStats{v, exchangeStats, span} }

// VHostStats is message_stats of a virtual host, or of the broker.
func (v View) VHostStats(span Span) *MessageStats { return &MessageStats{v, vhostStats, span} }

// ChurnRates is churn_rates of the broker.
func (v View) ChurnRates(span Span) *MessageStats { return &MessageStats{v, churnStats, span} }

// Value is one of its figures.
func (m *MessageStats) Value(f Figure) uint64 { return m.view.Point.Value(f) }

// Details says how one of its figures changes.
func (m *MessageStats) Details(f Figure) Details { return m.view.Details(f, m.span) }

// MarshalJSON implements json.Marshaler.
func (m *MessageStats) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 64*len(m.of))
	out = append(out, '{')
	for i, f := range m.of {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, f.String()...)
		out = append(out, `":`...)
		out = strconv.AppendUint(out, m.Value(f), 10)
		out = append(out, `,"`...)
		out = append(out, f.String()...)
		out = append(out, `_details":`...)
		details, err := json.Marshal(m.Details(f))
		if err != nil {
			return nil, err
		}
		out = append(out, details...)
	}
	return append(out, '}'), nil
}
