package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// calibrateOptions are the options of the calibrate scenario.
type calibrateOptions struct {
	Size     uint64        `json:"size"`
	Duration time.Duration `json:"duration_ns"`
	JSON     bool          `json:"-"`
	JSONFile string        `json:"-"`
}

// calibrateWarmup lets the sockets' buffers grow to their size.
const calibrateWarmup = 500 * time.Millisecond

func calibrateScenario() scenario {
	return scenario{
		name:    "calibrate",
		summary: "measure the bare relay: the yardstick for this machine",
		details: "A writer sends 128 KiB chunks over loopback TCP to a relay process, which reads up\n" +
			"to 256 KiB and writes it on to a reader; writer and reader are two threads of this\n" +
			"process. Nothing is parsed. Bytes per second divided by the wire size of a publish\n" +
			"(exchange \"\", key \"perf-test\") is how many messages a second a broker could pass\n" +
			"on this machine if it did nothing else. Measure it before and after each figure.",
		prepare: func(flags *flagSet) func(context.Context, console) error {
			options := &calibrateOptions{Size: 16, Duration: 5 * time.Second}
			flags.add(quantityFlag{&options.Size}, "s", "size", "BYTES", "body size of the messages to compare with")
			flags.add(durationFlag{&options.Duration}, "z", "time", "SECONDS", "measure for this long")
			flags.toggle(&options.JSON, "j", "json-stdout", "print the result as JSON to stdout")
			flags.text(&options.JSONFile, "", "json", "FILE", "write the result as JSON to FILE")
			return func(ctx context.Context, out console) error {
				if options.Size > bodyBytesMax || options.Duration <= 0 {
					return usagef("--size is at most %d and --time above 0", bodyBytesMax)
				}
				return runCalibrate(ctx, options, out)
			}
		},
	}
}

// calibrateResult is the JSON result of the calibrate scenario.
type calibrateResult struct {
	Scenario          string            `json:"scenario"`
	Seconds           float64           `json:"seconds"`
	Interrupted       bool              `json:"interrupted"`
	MessagesPerSecond float64           `json:"relay_messages_per_s"`
	BytesPerSecond    float64           `json:"relay_bytes_per_s"`
	WireBytes         int               `json:"publish_wire_bytes"`
	RelayCPU          float64           `json:"relay_cpu_ns_per_message"`
	ClientCPU         float64           `json:"client_cpu_ns_per_message"`
	Options           *calibrateOptions `json:"options"`
	Versions          versions          `json:"versions"`
	Environment       environment       `json:"environment"`
}

// relayProcess is the child and the two connections through it.
type relayProcess struct {
	command     *exec.Cmd
	stdin       io.Closer
	writer      int
	reader      int
	writerDone  chan struct{}
	readerDone  chan struct{}
	transferred atomic.Uint64
	ended       atomic.Bool // by stop, not by an error
	failure     chan error
}

func runCalibrate(ctx context.Context, options *calibrateOptions, out console) error {
	if err := checkWritable(options.JSONFile); err != nil {
		return err
	}
	properties, err := parseProperties("", false)
	if err != nil {
		return err
	}
	wireBytes := encodePublish("", defaultQueue, properties, options.Size, frameMaxDefault).size
	relay, err := startRelay(out.stderr)
	if err != nil {
		return err
	}
	defer relay.stop()
	if err := relay.wait(ctx, calibrateWarmup); err != nil {
		return err
	}
	began, bytesBefore := time.Now(), relay.transferred.Load()
	relayBefore, clientBefore := relay.cpu()
	if err := relay.wait(ctx, options.Duration); err != nil {
		return err
	}
	relayAfter, clientAfter := relay.cpu()
	bytes, span := float64(relay.transferred.Load()-bytesBefore), time.Since(began)
	messages := bytes / float64(wireBytes)
	result := &calibrateResult{
		Scenario: "calibrate", Seconds: span.Seconds(), Interrupted: ctx.Err() != nil,
		MessagesPerSecond: messages / span.Seconds(), BytesPerSecond: bytes / span.Seconds(), WireBytes: wireBytes,
		RelayCPU:  float64(relayAfter-relayBefore) / max(messages, 1),
		ClientCPU: float64(clientAfter-clientBefore) / max(messages, 1),
		Options:   options, Versions: versions{Tool: toolVersion()}, Environment: readEnvironment(""),
	}
	if options.JSONFile != "" {
		if err := writeJSONFile(options.JSONFile, result); err != nil {
			return err
		}
	}
	if options.JSON {
		return writeJSON(out.stdout, result)
	}
	fmt.Fprintf(out.stdout, "Bare relay: %s messages/s of %d bytes on the wire (%d in the body), %.2f GB/s\n",
		humanCount(uint64(result.MessagesPerSecond)), wireBytes, options.Size, result.BytesPerSecond/1e9)
	fmt.Fprintf(out.stdout, "CPU per message: relay %.1f ns, writer and reader %.1f ns\n", result.RelayCPU, result.ClientCPU)
	return nil
}

// startRelay starts the child and both ends of the stream through it.
func startRelay(stderr io.Writer) (relay *relayProcess, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	relay = &relayProcess{
		command: exec.Command(self, relayCommand), writer: -1, reader: -1,
		writerDone: make(chan struct{}), readerDone: make(chan struct{}), failure: make(chan error, 2),
	}
	relay.command.Stderr = stderr
	// A process group of its own: Ctrl-C is for the parent, which ends the
	// child in its own time and prints what it has.
	relay.command.SysProcAttr = ownProcessGroup()
	stdin, err := relay.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	relay.stdin = stdin
	stdout, err := relay.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	if err := relay.command.Start(); err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	defer func() {
		if err != nil {
			relay.kill()
		}
	}()
	var port int
	if _, err := fmt.Fscanf(bufio.NewReader(stdout), "port %d\n", &port); err != nil {
		return nil, fmt.Errorf("the relay process did not start: %w", err)
	}
	address := brokerAddress{hostPort: fmt.Sprintf("127.0.0.1:%d", port), handshakeTimeoutSpan: 10 * time.Second}
	if relay.writer, err = dialSocket(address); err != nil {
		return nil, fmt.Errorf("can't reach the relay process: %w", err)
	}
	if relay.reader, err = dialSocket(address); err != nil {
		unix.Close(relay.writer)
		return nil, fmt.Errorf("can't reach the relay process: %w", err)
	}
	go relay.write()
	go relay.read()
	return relay, nil
}

func (r *relayProcess) write() {
	runtime.LockOSThread()
	defer close(r.writerDone)
	chunk := make([]byte, relayWriteBytes)
	for !r.ended.Load() {
		if err := writeAll(r.writer, chunk); err != nil {
			r.fail(err)
			return
		}
	}
}

func (r *relayProcess) read() {
	runtime.LockOSThread()
	defer close(r.readerDone)
	buffer := make([]byte, relayReadBytes)
	for {
		n, err := unix.Read(r.reader, buffer)
		switch {
		case err == unix.EINTR:
		case err != nil:
			r.fail(err)
			return
		case n == 0:
			r.fail(io.ErrUnexpectedEOF)
			return
		default:
			r.transferred.Add(uint64(n))
		}
	}
}

func (r *relayProcess) fail(err error) {
	if !r.ended.Load() {
		r.failure <- fmt.Errorf("the relay broke: %w", err)
	}
}

// wait lets the relay run for a while, or until ctx ends.
func (r *relayProcess) wait(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case err := <-r.failure:
		return err
	}
	return nil
}

// cpu reads the CPU times of the relay process and of this one.
func (r *relayProcess) cpu() (relay, client time.Duration) {
	relay, _ = processCPU(r.command.Process.Pid)
	client, _ = processCPU(os.Getpid())
	return relay, client
}

// stop ends child and threads, and closes the sockets after them.
func (r *relayProcess) stop() {
	r.ended.Store(true)
	_ = unix.Shutdown(r.writer, unix.SHUT_RDWR)
	_ = unix.Shutdown(r.reader, unix.SHUT_RDWR)
	r.kill()
	<-r.writerDone
	<-r.readerDone
	unix.Close(r.writer)
	unix.Close(r.reader)
}

func (r *relayProcess) kill() {
	if err := r.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	_ = r.command.Wait() // only to reap it
	_ = r.stdin.Close()
}
