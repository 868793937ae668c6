package segstore

// Memory for records that only the journal has is bounded by Options.HeldBytes
// for the whole store. Beyond it, tails go to their segments, into the page
// cache only: the journal is what makes them durable. At each flush tick when the filer
// is idle it gets some, those that hold more than the smallest chunk first, because a
// file for each of ten thousand quiet queues is the dearest way to save memory.

// With a thousand logs that get records in turn, what each write to a segment
// brings is what a log holds when its turn comes, 9 KiB, and the system call and
// the page at either end cost more than the bytes. So two things make writes
// larger, in the same memory:
//
// Spilling stops soon below the bound. The logs that hold for longest go first, so
// one that has its turn holds twice as much as they do on average.
//
// A crowd of logs gets, on top of HeldBytes, what written chunks that stay resident
// for consumers (evict) leave of their own bound, and those may only have half of
// that: 4 KiB at the front of each of a thousand logs save nobody a read.

// crowdLogs is how many logs with open chunks are a crowd.
const crowdLogs = 128

// keptMax is what written chunks of all logs may take in memory.
func (s *Store) keptMax() int64 {
	if s.crowded.Load() {
		return s.tune.keptBytes / 2
	}
	return s.tune.keptBytes
}

// heldMax is what records that only the journal has may take.
func (s *Store) heldMax() int64 {
	if s.crowded.Load() {
		return s.o.HeldBytes + min(s.o.HeldBytes/2, max(0, s.tune.keptBytes-s.keptBytes.Load()))
	}
	return s.o.HeldBytes
}

// spillWaves bounds how many waves of logs enter a round for memory's sake.
const spillWaves = 5

// overHeld says that such memory exceeds its bound.
func (s *Store) overHeld() bool { return s.heldBytes.Load() > s.heldMax() }

// takeSpills marks logs to be written to their segments. Called with s.mu held.
func (s *Store) takeSpills(logs []*Log) []*Log {
	s.crowded.Store(s.openTails.Load() > crowdLogs) // before spilled logs close theirs
	if !s.overHeld() {
		return logs
	}
	excess := s.heldBytes.Load() - s.heldMax()*15/16
	left := spillWaves * s.tune.waveLogs
	for pass := range 2 {
		kept := s.holders[:0]
		for _, l := range s.holders {
			held := l.heldBytes.Load()
			switch {
			case held == 0:
				l.lists.And(^uint32(listHeld))
			case excess > 0 && left > 0 && (pass > 0 || held > int64(chunkClassBytes[0])):
				l.lists.And(^uint32(listHeld))
				l.spill = true
				logs = takeOne(logs, l)
				excess -= held
				left--
			default:
				kept = append(kept, l)
			}
		}
		clear(s.holders[len(kept):])
		s.holders = kept
	}
	return logs
}
