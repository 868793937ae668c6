package bodies

import "fmt"

// A body whose read failed in the middle of a delivery is suspect: who opens it hears of
// that at once, and need not begin a delivery that ends in the middle again. The file is
// left alone: the disk may be mended. The operator ends the suspicion (Retry), or the next
// start does.

// bodyName is one name of a body.
type bodyName struct {
	dir Dir
	id  uint64
}

// Suspect has the body's next Open fail, until Retry. For an error of Next that is not
// ErrDamaged.
func (o *Outgoing) Suspect() {
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if o.abort != nil || err == nil {
		return
	}
	s := o.store
	s.suspectMu.Lock()
	defer s.suspectMu.Unlock()
	if s.suspects == nil {
		s.suspects = map[bodyName]error{}
	}
	s.suspects[bodyName{o.dir, o.ref.ID}] = err
	s.suspectBodies.Store(int32(len(s.suspects)))
}

// suspected says why a body is not opened.
func (s *Store) suspected(dir Dir, id uint64) error {
	if s.suspectBodies.Load() == 0 {
		return nil
	}
	s.suspectMu.Lock()
	defer s.suspectMu.Unlock()
	if err := s.suspects[bodyName{dir, id}]; err != nil {
		return fmt.Errorf("it could not be read to its end before: %w", err)
	}
	return nil
}

// Retry has the suspect bodies of a queue opened again, and returns how many there were.
func (s *Store) Retry(dir Dir) (n int) {
	return s.absolve(func(name bodyName) bool { return name.dir == dir })
}

// absolve ends the suspicion of bodies.
func (s *Store) absolve(which func(bodyName) bool) (n int) {
	if s.suspectBodies.Load() == 0 {
		return 0
	}
	s.suspectMu.Lock()
	defer s.suspectMu.Unlock()
	for name := range s.suspects {
		if which(name) {
			delete(s.suspects, name)
			n++
		}
	}
	s.suspectBodies.Store(int32(len(s.suspects)))
	return n
}
