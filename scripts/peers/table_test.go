// Package peers_test checks the table that is made of two brokers' results.
package peers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const environment = `"environment": {"cpu": {"model": "A", "cores": 2, "hypervisor": true}, "kernel": "Linux", "goarch": "amd64",
	"filesystem": "ext4", "mount_options": "rw", "commit": "c0ffee", "io_backend": "epoll", "durability": "fsync", "go_version": "go1"}`

func throughput(broker, consumed, extra string) string {
	return `{"scenario": "throughput", "interrupted": false` + extra + `, "published_per_s": 1000, "consumed_per_s": ` + consumed + `,
	"broker_cpu_ns_per_message": 50, "rss": {"max": {"vm_rss": 10485760}}, "versions": {"broker_product": "` + broker + `", "broker_version": "1"},
	"options": {"size": 16, "publishers": 1, "consumers": 1, "ack_every": 100, "prefetch": 1000}, ` + environment + `}`
}

func TestTableSetsMediansOfBothSideBySide(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("jq is not installed")
	}
	arguments := []string{"-rs", "-f", "table.jq"}
	directory := t.TempDir()
	for name, result := range map[string]string{
		"a": throughput("BasaltMQ", "9000000", ""), "b": throughput("BasaltMQ", "1234567.4", ""), "c": throughput("BasaltMQ", "1", ""),
		"d": throughput("RabbitMQ", "40000", ""), "e": throughput("RabbitMQ", "60000", ""),
		"f": strings.Replace(throughput("RabbitMQ", "1", ""), `"interrupted": false`, `"interrupted": true`, 1),
		"g": `{"scenario": "confirm", "interrupted": false, "versions": {"broker_product": "RabbitMQ", "broker_version": "1"}, "options": {"size": 16},
			"rows": [{"queues": 1, "window": 100, "confirmed_per_s": 999, "latency": {"p50_us": 1, "p99_us": 2}},
				{"queues": 1, "window": 100, "channels": 100, "confirmed_per_s": 777, "latency": {"p50_us": 1, "p99_us": 2}},
				{"queues": 100, "window": 100, "channels": 100, "confirmed_per_s": 555, "latency": {"p50_us": 1, "p99_us": 2}}], ` + environment + `}`,
	} {
		path := filepath.Join(directory, name+".json")
		if err := os.WriteFile(path, []byte(result), 0o644); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, path)
	}
	out, err := exec.Command(jq, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range []string{
		"| 16 B, 1 publisher, 1 consumer, acks of 100, prefetch 1000 | consumed/s | 1,234,567 | 50,000 | 24.69 | 3 |",
		"| 16 B, 1 publisher, 1 consumer, acks of 100, prefetch 1000 | RSS at most | 10 MiB | 10 MiB | 1 | 3 |",
		"| 16 B persistent, 1 queue(s), window 100 | confirmed/s |  | 999 |  | 0 |",
		"| 16 B persistent, 1 queue(s), window 100, 100 channels | confirmed/s |  | 777 |  | 0 |",
		"| 16 B persistent, 100 queue(s), window 100 | confirmed/s |  | 555 |  | 0 |",
		"| BasaltMQ | commit c0ffee, epoll, durability of confirms fsync, go1 |",
		"| CPU | A, 2 hardware threads, virtual machine |",
	} {
		if !strings.Contains(string(out), line+"\n") {
			t.Errorf("no line %s in\n%s", line, out)
		}
	}
}
