package config

import "reflect"

// Apply takes over from next what a running broker can take over, into running,
// and returns the names of those keys, and of those that differ and need a restart.
func Apply(running, next *Config) (changed, restart []string) {
	changed, restart = []string{}, []string{}
	tlsTurns := (running.TLS.Cert == "") != (next.TLS.Cert == "") // on or off: listeners open or close
	for i := range keys {
		k := &keys[i]
		text := k.Text(next)
		switch {
		case text == k.Text(running):
		case !k.Reload || tlsTurns && k.Section() == "tls":
			restart = append(restart, k.Name)
		default:
			changed = append(changed, k.Name)
			_ = k.value(running).set(text) // it was set in next
		}
	}
	switch {
	case reflect.DeepEqual(running.TLS.SNI, next.TLS.SNI):
	case tlsTurns:
		restart = append(restart, "tls.sni")
	default:
		running.TLS.SNI = next.TLS.SNI
		changed = append(changed, "tls.sni")
	}
	return changed, restart
}
