package metrics

import (
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// sum adds a figure of all loops up.
func sum(value func(f *loop.Figures) float64) func(o *overall) float64 {
	return func(o *overall) float64 {
		total := 0.0
		for i := range o.loops {
			total += value(&o.loops[i])
		}
		return total
	}
}

// singles are the metrics without labels, in the order of the page. Those of what
// RabbitMQ has as well have its names.
var singles = []single{
	{"uptime_seconds", gauge, "Time since the start.", func(o *overall) float64 { return o.uptime.Seconds() }},

	{"connections_opened_total", counter, "Connections opened.", event(stats.ConnectionCreated)},
	{"connections_closed_total", counter, "Connections closed or lost.", event(stats.ConnectionClosed)},
	{"channels_opened_total", counter, "Channels opened.", event(stats.ChannelCreated)},
	{"channels_closed_total", counter, "Channels closed.", event(stats.ChannelClosed)},
	{"queues_declared_total", counter, "Declarations of queues, those of existing ones included.", event(stats.QueueDeclared)},
	{"queues_created_total", counter, "Queues created.", event(stats.QueueCreated)},
	{"queues_deleted_total", counter, "Queues deleted.", event(stats.QueueDeleted)},

	{"connections", gauge, "Open connections.", func(o *overall) float64 { return o.open(stats.ConnectionCreated, stats.ConnectionClosed) }},
	{"channels", gauge, "Open channels.", func(o *overall) float64 { return o.open(stats.ChannelCreated, stats.ChannelClosed) }},
	{"consumers", gauge, "Consumers.", func(o *overall) float64 { return float64(o.all.consumers) }},
	{"queues", gauge, "Queues.", func(o *overall) float64 { return float64(o.all.queues) }},
	{"exchanges", gauge, "Exchanges.", func(o *overall) float64 { return float64(o.all.exchanges) }},
	{"queue_messages_ready", gauge, "Messages ready to be delivered.", func(o *overall) float64 { return float64(o.all.point.Ready) }},
	{"queue_messages_unacked", gauge, "Messages delivered and not acknowledged yet.", func(o *overall) float64 { return float64(o.all.point.Unacked) }},
	{"queue_messages", gauge, "Messages in queues: ready and not acknowledged ones.", func(o *overall) float64 { return float64(o.all.point.Ready + o.all.point.Unacked) }},

	{"connection_incoming_bytes_total", counter, "Bytes received from clients.", sum(func(f *loop.Figures) float64 { return float64(f.BytesRead) })},
	{"connection_outgoing_bytes_total", counter, "Bytes sent to clients.", sum(func(f *loop.Figures) float64 { return float64(f.BytesSent) })},

	{"channel_messages_published_total", counter, "Messages published.", count(stats.Publish)},
	{"channel_messages_confirmed_total", counter, "Publishes confirmed.", count(stats.Confirm)},
	{"channel_messages_unroutable_returned_total", counter, "Mandatory messages returned because no queue was found.", count(stats.ReturnUnroutable)},
	{"channel_messages_unroutable_dropped_total", counter, "Messages dropped because no queue was found.", count(stats.DropUnroutable)},
	{"channel_messages_delivered_ack_total", counter, "Messages delivered to consumers that acknowledge.", count(stats.Deliver)},
	{"channel_messages_delivered_total", counter, "Messages delivered to consumers that do not acknowledge.", count(stats.DeliverNoAck)},
	{"channel_get_ack_total", counter, "Messages got by basic.get, to be acknowledged.", count(stats.Get)},
	{"channel_get_total", counter, "Messages got by basic.get without acknowledgement.", count(stats.GetNoAck)},
	{"channel_get_empty_total", counter, "basic.get on empty queues.", count(stats.GetEmpty)},
	{"channel_messages_redelivered_total", counter, "Deliveries that were not the first of their message.", count(stats.Redeliver)},
	{"channel_messages_acked_total", counter, "Messages acknowledged.", count(stats.Ack)},
	{"channel_messages_rejected_total", counter, "Messages rejected or given back.", count(stats.Reject)},
	{"message_bytes_published_total", counter, "Bytes of the bodies of published messages.", count(stats.BytesIn)},
	{"message_bytes_delivered_total", counter, "Bytes of the bodies of delivered messages.", count(stats.BytesOut)},

	{"process_open_fds", gauge, "Open file descriptors.", func(o *overall) float64 { return float64(o.process.openFiles) }},
	{"process_max_fds", gauge, "Limit of open file descriptors.", func(o *overall) float64 { return float64(o.process.maxFiles) }},
	{"process_open_tcp_sockets", gauge, "Sockets of clients, those in their handshake included.", sum(func(f *loop.Figures) float64 { return float64(f.Conns) })},
	{"process_resident_memory_bytes", gauge, "Resident memory.", func(o *overall) float64 { return float64(o.process.residentBytes) }},
	{"resident_memory_limit_bytes", gauge, "Memory of the machine, or of the control group.", func(o *overall) float64 { return float64(o.process.memoryLimit) }},
	{"cpu_user_seconds_total", counter, "Processor time in user mode.", func(o *overall) float64 { return o.process.userSeconds }},
	{"cpu_system_seconds_total", counter, "Processor time in the kernel.", func(o *overall) float64 { return o.process.systemSeconds }},

	{"disk_space_available_bytes", gauge, "Free space on the data directory's file system.", func(o *overall) float64 { return float64(o.free) }},
	{"disk_space_available_limit_bytes", gauge, "Below this much free space publishers are blocked.", func(o *overall) float64 { return float64(max(o.floor, 0)) }},
	{"alarms_free_disk_space_watermark", gauge, "1 while publishers are blocked because of low disk space.", func(o *overall) float64 { return flag(o.alarm) }},
	{"store_no_space", gauge, "1 while a write waits for disk space.", func(o *overall) float64 { return flag(o.noSpace) }},
	{"store_pressured", gauge, "1 while publishers wait for the disk.", func(o *overall) float64 { return flag(o.pressed) }},
	{"store_fenced_logs", gauge, "Logs that take no messages because a write or sync failed, or they cannot be read; each needs an operator.", func(o *overall) float64 { return float64(o.store.FencedLogs) }},
	{"store_unread_logs", gauge, "Logs, of those that are fenced, that could not be read when they were opened.", func(o *overall) float64 { return float64(o.store.UnreadLogs) }},
	{"store_corrupt_batches_total", counter, "Batches of messages, and indexes of them, found damaged.", func(o *overall) float64 { return float64(o.store.CorruptBatches) }},
	{"store_logs", gauge, "Logs.", func(o *overall) float64 { return float64(o.store.Logs) }},
	{"store_segments", gauge, "Segment files of logs.", func(o *overall) float64 { return float64(o.files.Files) }},
	{"store_segment_bytes", gauge, "Size of segment files, holes of what was consumed included.", func(o *overall) float64 { return float64(o.files.Bytes) }},
	{"store_open_files", gauge, "Open files of logs.", func(o *overall) float64 { return float64(o.store.OpenFiles) }},
	{"store_unwritten_bytes", gauge, "Records in memory that are not on disk yet.", func(o *overall) float64 { return float64(o.store.UnwrittenBytes) }},
	{"store_held_bytes", gauge, "Records in memory that only the journal has.", func(o *overall) float64 { return float64(o.store.HeldBytes) }},
	{"store_resident_bytes", gauge, "Memory of logs: the ends that are written, and blocks that are read.", func(o *overall) float64 { return float64(o.store.ResidentBytes) }},
	{"store_skipped_bytes_total", counter, "Records that were consumed before they had to be written.", func(o *overall) float64 { return float64(o.store.SkippedBytes) }},
	{"store_bypassed_bytes_total", counter, "Records written to segments without the journal.", func(o *overall) float64 { return float64(o.store.BypassedBytes) }},
	{"store_punched_bytes_total", counter, "Space of consumed records given back to the file system.", func(o *overall) float64 { return float64(o.store.PunchedBytes) }},
	{"io_read_bytes_total", counter, "Bytes of messages read from disk.", func(o *overall) float64 { return float64(o.store.ReadBytes) }},
	{"io_write_bytes_total", counter, "Bytes written to disk, of any kind.", func(o *overall) float64 { return float64(o.store.WrittenBytes) }},
	{"io_write_ops_total", counter, "Writes to disk.", func(o *overall) float64 { return float64(o.store.Writes) }},
	{"io_sync_ops_total", counter, "Syncs of files.", func(o *overall) float64 { return float64(o.store.Syncs) }},
	{"journal_written_bytes_total", counter, "Bytes written to the journal.", func(o *overall) float64 { return float64(o.store.JournalBytes) }},
	{"journal_groups_total", counter, "Groups of entries committed by the journal.", func(o *overall) float64 { return float64(o.store.JournalGroups) }},
	{"journal_syncs_total", counter, "Syncs of the journal.", func(o *overall) float64 { return float64(o.store.JournalSyncs) }},
	{"journal_checkpoints_total", counter, "Checkpoints of the journal.", func(o *overall) float64 { return float64(o.store.Checkpoints) }},

	{"arena_mapped_bytes", gauge, "Address space of the pools for message data.", func(o *overall) float64 { return float64(o.arena.Mapped) }},
	{"arena_in_use_bytes", gauge, "Buffers in use.", func(o *overall) float64 { return float64(o.arena.InUse) }},
	{"arena_resident_bytes", gauge, "Buffers in use, or free with their memory still there.", func(o *overall) float64 { return float64(o.arena.Resident) }},

	{"go_goroutines", gauge, "Goroutines.", func(o *overall) float64 { return float64(o.process.goroutines) }},
	{"go_heap_objects_bytes", gauge, "Objects on the Go heap, garbage included.", func(o *overall) float64 { return float64(o.process.heapBytes) }},
	{"go_memory_bytes", gauge, "Address space of the Go runtime.", func(o *overall) float64 { return float64(o.process.runtimeBytes) }},
	{"go_gc_cycles_total", counter, "Garbage collections.", func(o *overall) float64 { return float64(o.process.collections) }},
	{"go_heap_allocated_bytes_total", counter, "Bytes allocated on the Go heap.", func(o *overall) float64 { return float64(o.process.allocatedBytes) }},
}

// globals are RabbitMQ's counters by protocol.
var globals = []single{
	{"messages_received_total", counter, "Messages received from publishers.", count(stats.Publish)},
	{"messages_routed_total", counter, "Copies of messages that went into queues.", count(stats.PublishOut)},
	{"messages_confirmed_total", counter, "Publishes confirmed.", count(stats.Confirm)},
	{"messages_unroutable_returned_total", counter, "Mandatory messages returned because no queue was found.", count(stats.ReturnUnroutable)},
	{"messages_unroutable_dropped_total", counter, "Messages dropped because no queue was found.", count(stats.DropUnroutable)},
	{"messages_delivered_total", counter, "Messages delivered to consumers, or got.", func(o *overall) float64 { return float64(o.counts.DeliverGet()) }},
	{"messages_delivered_consume_manual_ack_total", counter, "Messages delivered to consumers that acknowledge.", count(stats.Deliver)},
	{"messages_delivered_consume_auto_ack_total", counter, "Messages delivered to consumers that do not acknowledge.", count(stats.DeliverNoAck)},
	{"messages_delivered_get_manual_ack_total", counter, "Messages got by basic.get, to be acknowledged.", count(stats.Get)},
	{"messages_delivered_get_auto_ack_total", counter, "Messages got by basic.get without acknowledgement.", count(stats.GetNoAck)},
	{"messages_get_empty_total", counter, "basic.get on empty queues.", count(stats.GetEmpty)},
	{"messages_redelivered_total", counter, "Deliveries that were not the first of their message.", count(stats.Redeliver)},
	{"messages_acknowledged_total", counter, "Messages acknowledged.", count(stats.Ack)},
	{"consumers", gauge, "Consumers.", func(o *overall) float64 { return float64(o.all.consumers) }},
}
