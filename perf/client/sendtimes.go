package client

import "sort"

// sendTimes remembers when the messages of a channel were sent: for each run of
// them that went into one buffer its last number and the time, because a time for
// each message of a thousand channels would be megabytes to walk through.
//
// Runs stand in a ring that grows to the most there ever were at once; those of
// settled messages are dropped from its head.
type sendTimes struct {
	runs       []sentRun // length is a power of two
	head, size int
}

type sentRun struct {
	last   uint64 // number of its last message
	sentAt int64  // ns
}

// note adds a run that ends with the message last.
func (s *sendTimes) note(last uint64, sentAt int64) {
	if s.size > 0 {
		if newest := s.at(s.size - 1); newest.sentAt == sentAt {
			newest.last = last
			return
		}
	}
	if s.size == len(s.runs) {
		grown := make([]sentRun, max(4, 2*len(s.runs)))
		for i := range s.size {
			grown[i] = *s.at(i)
		}
		s.runs, s.head = grown, 0
	}
	s.size++
	*s.at(s.size - 1) = sentRun{last, sentAt}
}

// at returns the run number i from the oldest.
func (s *sendTimes) at(i int) *sentRun { return &s.runs[(s.head+i)&(len(s.runs)-1)] }

// find returns which run a message that was sent is in; its run is not dropped.
func (s *sendTimes) find(number uint64) int {
	return sort.Search(s.size, func(i int) bool { return s.at(i).last >= number })
}

// drop forgets the runs of messages up to number.
func (s *sendTimes) drop(number uint64) {
	for s.size > 0 && s.at(0).last <= number {
		s.head, s.size = (s.head+1)&(len(s.runs)-1), s.size-1
	}
}
