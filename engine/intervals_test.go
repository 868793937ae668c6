package engine

import (
	"testing"
	"time"
)

// TestStoreOptions: what the configuration says of the store arrives there.
func TestStoreOptions(t *testing.T) {
	t.Parallel()
	e := &Engine{config: Config{FlushInterval: 25 * time.Millisecond, SyncInterval: 2 * time.Second, DurabilityOS: true}}
	if o := e.storeOptions(); o.FlushInterval != 25*time.Millisecond || o.SyncInterval != 2*time.Second || !o.DurabilityOS || o.OnCommit == nil {
		t.Errorf("%+v", o)
	}
	if o := new(Engine).storeOptions(); o.FlushInterval != 0 || o.SyncInterval != 0 { // the store's defaults
		t.Error(o.FlushInterval, o.SyncInterval)
	}
}
