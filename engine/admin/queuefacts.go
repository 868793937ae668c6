package admin

import (
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
)

// QueueFacts are those fields of a queue that tell what it is made of, under
// RabbitMQ's names.
type QueueFacts struct {
	Bytes           uint64 `json:"message_bytes"`
	BytesReady      uint64 `json:"message_bytes_ready"`
	BytesUnacked    uint64 `json:"message_bytes_unacknowledged"`
	BytesRAM        uint64 `json:"message_bytes_ram"`
	BytesPersistent uint64 `json:"message_bytes_persistent"`
	BytesPagedOut   uint64 `json:"message_bytes_paged_out"`
	RAM             uint64 `json:"messages_ram"`
	ReadyRAM        uint64 `json:"messages_ready_ram"`
	UnackedRAM      uint64 `json:"messages_unacknowledged_ram"`
	Persistent      uint64 `json:"messages_persistent"`
	PagedOut        uint64 `json:"messages_paged_out"`
	Memory          uint64 `json:"memory"`

	IdleSince       *string      `json:"idle_since,omitempty"`
	SingleActiveTag *string      `json:"single_active_consumer_tag"`
	ExclusiveTag    *string      `json:"exclusive_consumer_tag"`
	HeadTimestamp   *uint64      `json:"head_message_timestamp"` // of a single queue only
	Backing         BackingQueue `json:"backing_queue_status"`
}

// BackingQueue is where the messages are.
type BackingQueue struct {
	Mode       string `json:"mode"`
	Version    int    `json:"version"`
	Length     uint64 `json:"len"`
	LowOffset  uint64 `json:"low_offset"`
	NextOffset uint64 `json:"next_seq_id"`
	Levels     int    `json:"priorities_in_use"`
}

// idleAfter is how long nobody has used a queue that counts as idle.
const idleAfter = 10 * time.Second

// factsOf tells what a queue is made of; c are its counts.
func factsOf(q *broker.Queue, c broker.Counts, now time.Time) *QueueFacts {
	f := q.Facts()
	all := c.Ready + c.Unacked
	out := &QueueFacts{
		Bytes: f.ReadyBytes + f.UnackedBytes, BytesReady: f.ReadyBytes, BytesUnacked: f.UnackedBytes,
		RAM: min(f.Resident, all), Memory: f.MemoryBytes,
		SingleActiveTag: nameOrNull(f.SingleActiveTag), ExclusiveTag: nameOrNull(f.ExclusiveTag),
		Backing: BackingQueue{Mode: "default", Version: 1, Length: all, LowOffset: f.LowOffset, NextOffset: f.NextOffset, Levels: f.Levels},
	}
	out.ReadyRAM = min(out.RAM, c.Ready)
	out.UnackedRAM = out.RAM - out.ReadyRAM
	out.PagedOut = all - out.RAM
	out.BytesRAM = min(f.ResidentBytes, out.Bytes)
	out.BytesPagedOut = out.Bytes - out.BytesRAM
	if q.Durable && !q.Exclusive() { // transient messages are kept alike
		out.Persistent, out.BytesPersistent = all, out.Bytes
	}
	if used := time.UnixMilli(f.UsedAt); f.UsedAt > 0 && now.Sub(used) >= idleAfter {
		text := used.UTC().Format("2006-01-02T15:04:05.000-07:00")
		out.IdleSince = &text
	}
	return out
}

// number returns one of the figures that lists are sorted by.
func (f *QueueFacts) number(name string) (any, bool) {
	for _, one := range []struct {
		name  string
		value uint64
	}{
		{"memory", f.Memory}, {"message_bytes", f.Bytes}, {"message_bytes_ready", f.BytesReady}, {"message_bytes_unacknowledged", f.BytesUnacked},
		{"message_bytes_ram", f.BytesRAM}, {"message_bytes_persistent", f.BytesPersistent}, {"message_bytes_paged_out", f.BytesPagedOut},
		{"messages_ram", f.RAM}, {"messages_persistent", f.Persistent}, {"messages_paged_out", f.PagedOut},
	} {
		if one.name == name {
			return float64(one.value), true
		}
	}
	if name == "idle_since" {
		if f.IdleSince == nil {
			return nil, true
		}
		return *f.IdleSince, true
	}
	return nil, false
}
