package schedule

// entryHeap is a binary heap, the first entry at 0.
type entryHeap []Entry

func (h *entryHeap) push(e Entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *entryHeap) pop() Entry {
	s := *h
	first := s[0]
	n := len(s) - 1
	s[0] = s[n]
	*h = s[:n]
	h.down(0)
	if n == 0 && cap(s) > blockEntries {
		*h = nil
	}
	return first
}

func (h *entryHeap) down(i int) {
	s := *h
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(s); c++ {
			if s[c].before(s[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// remake makes a heap of whatever is there.
func (h *entryHeap) remake() {
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}
