package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore/inspect"
)

// dataDir is a stopped broker's data directory, opened for reading. While it
// is open no broker can start on it: the lock file is held shared, so that
// several tools may read at once. It is never created, nothing is written.
type dataDir struct {
	path  string
	files fs.FS
	lock  *os.File // nil when the directory has no lock file
}

func openDataDir(path string) (*dataDir, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist: give the directory that the broker got with -D", path)
	case err != nil:
		return nil, fmt.Errorf("%w: run as the broker's user or as root", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory: give the directory that the broker got with -D", path)
	}
	d := &dataDir{path: path, files: os.DirFS(path)}
	switch err := inspect.CheckDataDir(d.files); {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: permission denied: run as the broker's user or as root", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "inspect: "))
	}
	d.lock, err = os.Open(filepath.Join(path, inspect.LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: run as the broker's user or as root", err)
	}
	err = unix.Flock(int(d.lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return d, nil
	}
	d.lock.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s is in use by a running broker: stop it first, or look at a copy or snapshot of the directory", path)
	}
	return nil, fmt.Errorf("%s cannot be locked: %w", path, err)
}

func (d *dataDir) close() {
	if d.lock != nil {
		d.lock.Close()
	}
}

// queueName names a durable queue, or the exchange whose messages or values a log keeps.
type queueName struct {
	vhost, name string
	ofExchange  bool
}

func (q queueName) String() string {
	if q.ofExchange {
		return fmt.Sprintf("exchange %q in vhost %q", q.name, q.vhost)
	}
	return fmt.Sprintf("queue %q in vhost %q", q.name, q.vhost)
}

// definitions is what the definitions file says, and the journal beyond it.
type definitions struct {
	missing  bool // there are neither
	damaged  bool // the file is: nobody knows where the journal goes on
	seq      uint64
	records  int
	bytes    int64
	queues   map[queueName]uint64   // log ids of those that exist
	beside   map[queueName][]uint64 // other logs that they have
	logs     map[uint64]queueName   // whose each log is
	findings []inspect.Finding
}

// readDefinitions reads the definitions file; a missing one is no error: a
// broker that was killed early has written none. What the journal has comes
// after it, see journaled.
func (d *dataDir) readDefinitions() (*definitions, error) {
	defs := &definitions{queues: map[queueName]uint64{}, beside: map[queueName][]uint64{}, logs: map[uint64]queueName{}}
	data, err := fs.ReadFile(d.files, inspect.DefinitionsName)
	if errors.Is(err, fs.ErrNotExist) {
		defs.missing = true
		return defs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the definitions cannot be read: %w", err)
	}
	defs.bytes = int64(len(data))
	broker.ReadDefinitions(data, func(info broker.DefinitionInfo) { defs.apply(inspect.DefinitionsName, info) })
	return defs, nil
}

// journaled follows one record of the journal. Those that the file includes are
// passed over, as a start does.
func (defs *definitions) journaled(m inspect.MetaRecord) error {
	if m.Seq <= defs.seq {
		return nil
	}
	if m.Seq != defs.seq+1 && !defs.damaged {
		info := broker.DefinitionInfo{Pos: m.Pos, Bytes: int64(len(m.Data))}
		defs.add(inspect.Damage, m.File, info, fmt.Sprintf("definition record %d is the next after %d: those between are lost, or the file definitions is older than the journal; restore it from a backup", m.Seq, defs.seq))
	}
	defs.missing, defs.seq = false, m.Seq
	broker.EachDefinition(m.Data, func(info broker.DefinitionInfo) {
		info.Pos, info.Bytes = m.Pos, int64(len(m.Data))
		defs.apply(m.File, info)
	})
	return nil
}

// apply follows one record.
func (defs *definitions) apply(file string, info broker.DefinitionInfo) {
	if info.Err != nil {
		defs.damaged = defs.damaged || file == inspect.DefinitionsName
		defs.add(inspect.Damage, file, info, info.Err.Error())
		return
	}
	if info.Kind == broker.DefinitionSnapshot {
		defs.seq = info.Seq
		return
	}
	if info.Kind == broker.DefinitionGroup {
		return // what is in it follows
	}
	defs.records++
	q := queueName{info.VHost, info.Name, info.Kind == broker.DefinitionExchange}
	id, exists := defs.queues[q]
	switch {
	case info.Kind == broker.DefinitionVHost && info.Deleted:
		for q, id := range defs.queues {
			if q.vhost == info.VHost {
				delete(defs.queues, q)
				delete(defs.logs, id)
				for _, other := range defs.beside[q] {
					delete(defs.logs, other)
				}
				delete(defs.beside, q)
			}
		}
	case info.Kind != broker.DefinitionQueue && !q.ofExchange:
	case q.ofExchange && !info.Deleted && info.LogID == 0: // it keeps nothing
	case info.Deleted && exists:
		delete(defs.queues, q)
		delete(defs.logs, id)
		for _, other := range defs.beside[q] {
			delete(defs.logs, other)
		}
		delete(defs.beside, q)
	case info.Deleted || exists: // the broker skips such a record
	default:
		if other, taken := defs.logs[info.LogID]; taken {
			defs.add(inspect.Damage, file, info, fmt.Sprintf("%s has the log of %s", q, other))
		}
		defs.queues[q], defs.logs[info.LogID] = info.LogID, q
	}
	others := []uint64{info.CountsID, info.DedupID, info.ScheduleID}
	for n := range info.Levels {
		others = append(others, info.LogID+1+n)
	}
	for _, other := range others {
		if other != 0 {
			defs.beside[q] = append(defs.beside[q], other)
			defs.logs[other] = q
		}
	}
}

func (defs *definitions) add(level inspect.Level, file string, info broker.DefinitionInfo, text string) {
	defs.findings = append(defs.findings, inspect.Finding{Level: level, File: file, Pos: info.Pos, Bytes: info.Bytes, Text: text})
}

// unclaimed are findings about logs that the definitions do not name.
func (defs *definitions) unclaimed(ids []uint64) (findings []inspect.Finding) {
	if defs.missing && len(ids) > 0 {
		return []inspect.Finding{{
			Level: inspect.Damage, File: inspect.DefinitionsName, Pos: inspect.WholeFile,
			Text: "the file is missing, and the journal has no definitions: the next start would set all logs aside under quarantine/; restore it from a backup",
		}}
	}
	for _, id := range ids {
		if _, claimed := defs.logs[id]; !claimed {
			findings = append(findings, inspect.Finding{
				Level: inspect.Note, File: inspect.LogDir(id), Pos: inspect.WholeFile,
				Text: "belongs to no durable queue: the next start sets it aside under quarantine/",
			})
		}
	}
	return findings
}
