package routing

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// topicOfSize binds count patterns, half of them plain, the rest with "*" or
// "#", like a fleet of devices in regions; each to a destination of its own.
func topicOfSize(count int) Index[int] {
	index := NewTopic[int]()
	for i := range count {
		index.Bind(Binding[int]{RoutingKey: topicPattern(i), Destination: i})
	}
	return index
}

func topicPattern(i int) string {
	switch i % 4 {
	case 0:
		return fmt.Sprintf("region%d.device%d.#", i%50, i)
	case 1:
		return fmt.Sprintf("region%d.*.alarm%d", i%50, i)
	}
	return fmt.Sprintf("region%d.device%d.temperature", i%50, i)
}

func BenchmarkTopic(b *testing.B) {
	for _, count := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			index := topicOfSize(count)
			keys := make([][]byte, min(count, 256))
			for i := range keys {
				device := i * (count / len(keys))
				keys[i] = fmt.Appendf(nil, "region%d.device%d.temperature", device%50, device)
			}
			dst := make([]int, 0, 16)
			b.ReportAllocs()
			matched, i := 0, 0
			for b.Loop() {
				matched += len(index.Route(keys[i%len(keys)], nil, dst))
				i++
			}
			b.ReportMetric(float64(matched)/float64(b.N), "destinations/op")
		})
	}
}

// BenchmarkTopicHashes routes the longest key through nested "#".
func BenchmarkTopicHashes(b *testing.B) {
	index := NewTopic[int]()
	for i, pattern := range []string{"#.#.#.#", "#.a.#.a.#.a.#", "#.*.#.*.#", "*.#.a"} {
		index.Bind(Binding[int]{RoutingKey: pattern, Destination: i})
	}
	key := make([]byte, 255)
	for i := range key {
		key[i] = "a."[i%2]
	}
	dst := make([]int, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		index.Route(key, nil, dst)
	}
}

// BenchmarkTopicMemory reports what a binding costs on the heap, its routing key
// and its share of the destinations' entries included.
func BenchmarkTopicMemory(b *testing.B) {
	const count = 100_000
	for _, destinations := range []int{100, count} {
		b.Run(fmt.Sprint(destinations), func(b *testing.B) {
			for b.Loop() {
				before := heapBytes()
				index := NewTopic[int]()
				for i := range count {
					index.Bind(Binding[int]{RoutingKey: topicPattern(i), Destination: i % destinations})
				}
				b.ReportMetric(float64(heapBytes()-before)/count, "B/binding")
				runtime.KeepAlive(index)
			}
		})
	}
}

func heapBytes() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func BenchmarkTopicBindUnbind(b *testing.B) {
	index := topicOfSize(1_000)
	binding := Binding[int]{RoutingKey: "region7.new.#", Destination: 5}
	b.ReportAllocs()
	for b.Loop() {
		index.Bind(binding)
		index.Unbind(binding)
	}
}

func BenchmarkHeaders(b *testing.B) {
	const count = 1_000
	for _, mode := range []string{"all", "any"} {
		b.Run(mode, func(b *testing.B) {
			index := NewHeaders[int]()
			messages := make([]amqp.Table, 256)
			for i := range count {
				index.Bind(Binding[int]{Arguments: table("x-match", mode, "customer", fmt.Sprint("c", i), "order", i), Destination: i})
			}
			for i := range messages {
				messages[i] = table("format", "json", "customer", fmt.Sprint("c", i*3), "order", i*3, "retry", 0)
			}
			dst := make([]int, 0, 16)
			b.ReportAllocs()
			matched, i := 0, 0
			for b.Loop() {
				matched += len(index.Route(nil, messages[i%len(messages)], dst))
				i++
			}
			b.ReportMetric(float64(matched)/float64(b.N), "destinations/op")
		})
	}
}

func BenchmarkDirect(b *testing.B) {
	index := NewDirect[int]()
	for i := range 1_000 {
		index.Bind(Binding[int]{RoutingKey: fmt.Sprint("key", i), Destination: i})
	}
	key, dst := []byte("key500"), make([]int, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		index.Route(key, nil, dst)
	}
}

func BenchmarkFanout(b *testing.B) {
	index := NewFanout[int]()
	for i := range 100 {
		index.Bind(Binding[int]{Destination: i})
	}
	dst := make([]int, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		index.Route(nil, nil, dst)
	}
}
