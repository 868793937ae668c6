package engine

import (
	"fmt"
	"time"

	"github.com/basaltmq/basaltmq/engine/admin"
)

// DiskFreeMinDefault is the default floor of free space. The journal and a
// segment for each of a few busy queues fit above it.
const DiskFreeMinDefault = 128 << 20

const spaceInterval = time.Second

// space is what was last known of free space.
type space struct {
	free, floor int64
	alarm       string
}

// fill tells operators. Nothing is known before the first look, or if nobody looks.
func (s *space) fill(status *admin.Status) {
	if s != nil {
		status.DiskFree, status.DiskFloor, status.Alarm = s.free, s.floor, s.alarm
	}
}

// noteSpace keeps what has been found, if it is news.
func (e *Engine) noteSpace(s space) {
	if old := e.space.Load(); old == nil || *old != s {
		e.space.Store(&s)
	}
}

// watchSpace blocks publishers while free space on the data directory's file
// system is below the floor, and lets them go on when a quarter more than the
// floor is free again, so that the alarm does not flutter.
func (e *Engine) watchSpace() {
	defer close(e.watched)
	interval := e.config.SpaceInterval
	if interval == 0 {
		interval = spaceInterval
	}
	freeSpace := e.config.FreeSpace
	if freeSpace == nil {
		freeSpace = e.disk.Free
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	blocked, unreadable, alarm := false, false, ""
	for {
		floor := e.diskFreeMin.Load() // negative: there is none
		free, err := freeSpace()
		if err == nil && floor >= 0 && e.store.NoSpace() {
			free = min(free, floor-1) // a write has found none, whatever the figure says
		}
		switch {
		case floor >= 0 && err != nil:
			if !unreadable {
				e.logger.Error("free disk space cannot be read; publishers are not blocked when it runs out", "err", err)
			}
		case !blocked && floor >= 0 && free < floor:
			blocked = true
			e.logger.Error("disk space is low: publishers are blocked until there is more; consume, delete queues, or free space otherwise",
				"free_bytes", free, "floor_bytes", floor)
			alarm = fmt.Sprintf("low on disk: %d MiB free, %d MiB needed", free>>20, floor>>20)
			e.server.Load().SetAlarm(alarm)
		case blocked && (floor < 0 || free >= floor+floor/4):
			blocked = false
			e.logger.Info("disk space is sufficient again: publishers go on", "free_bytes", free, "floor_bytes", floor)
			alarm = ""
			e.server.Load().SetAlarm(alarm)
		}
		if err == nil {
			e.noteSpace(space{free, max(floor, 0), alarm})
		}
		unreadable = err != nil
		select {
		case <-ticker.C:
		case <-e.stop:
			return
		}
	}
}
