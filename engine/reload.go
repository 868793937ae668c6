package engine

// Reload takes over what of c may change while the broker runs; the rest of c is
// not looked at. An error leaves everything as it was. Not for several goroutines
// at once.
func (e *Engine) Reload(c Config) error {
	if e.fronts.contexts != nil && c.Secure.TLS != nil {
		if err := e.ReloadTLS(*c.Secure.TLS); err != nil {
			return err
		}
	}
	e.server.Load().Tune(c.Tuning)
	e.adopt(c)
	return nil
}

// adopt sets what is looked at anew each time.
func (e *Engine) adopt(c Config) {
	drain := c.DrainTimeout
	if drain == 0 {
		drain = drainTimeoutDefault
	}
	e.drainTimeout.Store(int64(drain))
	floor := c.DiskFreeMin
	if floor == 0 {
		floor = DiskFreeMinDefault
	}
	e.diskFreeMin.Store(floor)
}
