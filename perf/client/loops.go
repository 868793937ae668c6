package client

// NewLoops makes event loops that report to owner.
func NewLoops(count int, owner LoopOwner) (loops []*Loop, err error) {
	for range count {
		l, err := NewLoop(owner)
		if err != nil {
			CloseLoops(loops)
			return nil, err
		}
		loops = append(loops, l)
	}
	return loops, nil
}

// StopLoops says goodbye on all connections and waits for the loops.
func StopLoops(loops []*Loop) {
	for _, l := range loops {
		l.Stop()
	}
	for _, l := range loops {
		<-l.Done
	}
}

// CloseLoops releases the loops' descriptors, when they have returned.
func CloseLoops(loops []*Loop) {
	for _, l := range loops {
		l.Close()
	}
}
