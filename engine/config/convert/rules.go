package convert

import (
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rules that both formats use.

// as sets a key to the value as it is.
func as(key string) rule {
	return func(r *Result, e entry) { r.put(e, key, e.value) }
}

// filled is as for what may be there and empty.
func filled(key string) rule {
	return func(r *Result, e entry) {
		if e.value != "" {
			r.put(e, key, e.value)
		}
	}
}

// milliseconds sets a time that the other broker counts in them.
func milliseconds(key string) rule {
	return func(r *Result, e entry) {
		n, err := strconv.ParseInt(e.value, 10, 64)
		if err != nil || n < 0 || n > int64(10*365*24*time.Hour/time.Millisecond) {
			r.lose(e, fmt.Sprintf("%q is no number of milliseconds", e.value))
			return
		}
		r.put(e, key, (time.Duration(n) * time.Millisecond).String())
	}
}

// truth sets a toggle.
func truth(key string) rule { return truthAs(key, "true", "false") }

// truthAs sets one text for what is on and another for what is off.
func truthAs(key, on, off string) rule {
	return func(r *Result, e entry) {
		switch strings.ToLower(e.value) {
		case "true", "yes", "on", "y", "1":
			r.put(e, key, on)
		case "false", "no", "off", "n", "0":
			r.put(e, key, off)
		default:
			r.lose(e, fmt.Sprintf("%q is neither true nor false", e.value))
		}
	}
}

// needless is for what this broker does without being told.
func needless(reason string) rule {
	return func(r *Result, e entry) { r.spare(e, reason) }
}

// lost is for what it does not have.
func lost(reason string) rule {
	return func(r *Result, e entry) { r.lose(e, reason) }
}

// logLevel knows the words of others.
func logLevel(r *Result, e entry) {
	level, ok := map[string]string{
		"trace": "debug", "debug": "debug", "info": "info", "notice": "info", "warn": "warn", "warning": "warn",
		"error": "error", "critical": "error", "fatal": "error", "none": "error",
	}[strings.ToLower(e.value)]
	if !ok {
		r.lose(e, fmt.Sprintf("%q is no level", e.value))
		return
	}
	r.put(e, "log.level", level)
}

// tlsVersion raises what is older than 1.2, and says so.
func tlsVersion(r *Result, e entry) {
	switch v := strings.TrimPrefix(strings.ToLower(e.value), "tlsv"); v {
	case "1.2", "1.3":
		if old := r.values["tls.min_version"]; old == "" || v < old {
			r.put(e, "tls.min_version", v)
		}
	default:
		r.lose(e, "versions before 1.2 are not spoken")
	}
}

// ciphers are OpenSSL's names of the suites that Go has, and the IANA's.
var ciphers = func() map[string]string {
	m := map[string]string{}
	for _, suite := range tls.CipherSuites() {
		name := suite.Name
		m[name] = name
		short := strings.TrimPrefix(name, "TLS_")
		short = strings.NewReplacer("_WITH_", "-", "AES_128", "AES128", "AES_256", "AES256", "CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", "_CBC", "").Replace(short)
		m[strings.ReplaceAll(short, "_", "-")] = name
	}
	return m
}()

// cipherList translates names separated by colons.
func cipherList(r *Result, e entry) {
	for name := range strings.SplitSeq(e.value, ":") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case ciphers[name] == "":
			r.lose(e, fmt.Sprintf("the cipher suite %s is not known here", name))
		case strings.HasPrefix(name, "TLS_AES"), strings.HasPrefix(name, "TLS_CHACHA"):
			r.spare(e, "the suites of TLS 1.3 are always on")
		default:
			r.add(e, "tls.ciphers", ciphers[name])
		}
	}
}
