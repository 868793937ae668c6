package segstore

// Memory for records that only the journal has is bounded by Options.HeldBytes
// for the whole store. Beyond it, tails go to their segments, into the page
// cache only: the journal is what makes them durable. At each flush tick when the filer
// is idle it gets some, those that hold more than the smallest chunk first, because a
// file for each of ten thousand quiet queues is the dearest way to save memory.

// spillWaves bounds how many waves of logs enter a round for memory's sake.
const spillWaves = 5

// overHeld says that such memory exceeds its bound.
func (s *Store) overHeld() bool { return s.heldBytes.Load() > s.o.HeldBytes }

// takeSpills marks logs to be written to their segments. Called with s.mu held.
func (s *Store) takeSpills(logs []*Log) []*Log {
	if !s.overHeld() {
		return logs
	}
	excess := s.heldBytes.Load() - s.o.HeldBytes*3/4
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
