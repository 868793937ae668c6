package routing

// slab hands out numbered cells of one slice; number 0 means "none". Cells are
// reused last in, first out. Pointers into a slab are valid until the next add.
type slab[T any] struct {
	cells []T // cells[0] stays unused
	free  []uint32
}

// add stores value and returns its number.
func (s *slab[T]) add(value T) uint32 {
	if count := len(s.free); count > 0 {
		id := s.free[count-1]
		s.free = s.free[:count-1]
		s.cells[id] = value
		return id
	}
	if len(s.cells) == 0 {
		s.cells = make([]T, 1, 4)
	}
	s.cells = append(s.cells, value)
	return uint32(len(s.cells) - 1)
}

// at returns the cell of a number handed out by add.
func (s *slab[T]) at(id uint32) *T { return &s.cells[id] }

// remove clears a cell for reuse. The last removal gives all memory back.
func (s *slab[T]) remove(id uint32) {
	var zero T
	s.cells[id] = zero
	s.free = append(s.free, id)
	if len(s.free) == len(s.cells)-1 {
		s.cells, s.free = nil, nil
	}
}

// capacity returns one more than the largest number handed out.
func (s *slab[T]) capacity() int { return len(s.cells) }
