package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Loaded is a configuration and where it comes from.
type Loaded struct {
	Config
	// File is the file that was read; empty: none.
	File string
	// Warnings are for the log.
	Warnings []string

	places map[string]string // of keys that are not their defaults by absence
}

// Given says whether a key was set anywhere.
func (l *Loaded) Given(name string) bool { return l.places[name] != "" }

// OwnPassword says whether the default user has a password that not everybody knows.
func (c *Config) OwnPassword() bool {
	return c.DefaultPasswordHash != "" || c.DefaultPassword != "guest"
}

// Place is where a key was set: a file and line, a variable or a flag.
func (l *Loaded) Place(name string) string {
	return cmp.Or(l.places[name], "default")
}

// Default returns the configuration when nothing is set.
func Default() Config {
	var c Config
	for i := range keys {
		if err := keys[i].value(&c).set(keys[i].Default); err != nil {
			panic("config: the default of " + keys[i].Name + " is not allowed")
		}
	}
	return c
}

// Load puts file, environment ("NAME=value") and flags together. The error holds
// all Problems there are.
func (cl *CommandLine) Load(environ []string) (*Loaded, error) {
	l := &Loaded{Config: Default(), places: map[string]string{}}
	var problems Problems
	env := environment(environ)
	if err := l.readFile(cl.file(env)); err != nil {
		var p Problems
		if !errors.As(err, &p) {
			return nil, err
		}
		problems = p
	}
	problems = append(problems, l.readEnvironment(env)...)
	slices.SortStableFunc(cl.given, func(a, b setting) int { // the wide ones first
		switch {
		case a.wide && !b.wide:
			return -1
		case b.wide && !a.wide:
			return 1
		}
		return 0
	})
	for _, s := range cl.given {
		p := l.apply(s.key, s.flag, s.text)
		if n := len(problems); s.wide && len(p) > 0 && n > 0 && problems[n-1].Place == s.flag {
			continue // the same mistake for another of its keys
		}
		problems = append(problems, p...)
	}
	if len(problems) == 0 {
		problems = l.check()
	}
	return l, problems.orNil()
}

// file is the file to read, and whether it has to exist.
func (cl *CommandLine) file(env map[string]string) (name string, required bool) {
	switch {
	case cl.File != "":
		return cl.File, true
	case env[envPrefix+"CONFIG"] != "":
		return env[envPrefix+"CONFIG"], true
	}
	return DefaultFile, false
}

func (l *Loaded) readFile(name string, required bool) error {
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !required:
		return nil
	case err != nil:
		return fmt.Errorf("the configuration cannot be read: %w", err)
	}
	l.File = name
	places, err := readFile(name, string(data), &l.Config)
	for key, place := range places {
		l.places[key] = place
	}
	l.warnOfPermissions(name)
	return err
}

// warnOfPermissions speaks up when anybody can read a password.
func (l *Loaded) warnOfPermissions(name string) {
	if !l.OwnPassword() && l.OAuth2.ClientSecret == "" {
		return
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s holds a password and everybody can read it: chmod o-r %s", name, name))
	}
}

func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, text, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = text
		}
	}
	return env
}

// foreign are variables that something else sets: container platforms describe
// the services around in such names, and the broker's own tests have theirs.
var foreign = regexp.MustCompile(`^BASALTMQ_(SOAK|CONFIG|(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?))$`)

// serviceURL is the value of such a variable that is named like a key.
var serviceURL = regexp.MustCompile(`^(tcp|udp)://`)

func (l *Loaded) readEnvironment(env map[string]string) (problems Problems) {
	known := map[string]bool{}
	var names []string
	for i := range keys {
		k := &keys[i]
		name := k.Env()
		known[name] = true
		names = append(names, name)
		text, ok := env[name]
		if k.Secret {
			known[name+"_FILE"] = true
			if file := env[name+"_FILE"]; file != "" {
				data, err := os.ReadFile(file)
				if err != nil {
					problems = append(problems, Problem{name + "_FILE", fmt.Sprintf("%s cannot be read from a file: %v", k.Name, err)})
					continue
				}
				name, text, ok = name+"_FILE", strings.TrimRight(string(data), "\r\n"), true
			}
		}
		if !ok || text == "" && !l.takesEmpty(k) {
			continue
		}
		if serviceURL.MatchString(text) && strings.HasSuffix(name, "_PORT") {
			problems = append(problems, Problem{name, fmt.Sprintf("%s is the address of a service that the container platform has put into the environment: give the service another name, or turn that off (Kubernetes: enableServiceLinks: false)", text)})
			continue
		}
		problems = append(problems, l.apply(k, name, text)...)
	}
	for _, name := range slices.Sorted(keysOf(env)) {
		if known[name] || foreign.MatchString(name) || serviceURL.MatchString(env[name]) {
			continue
		}
		text := fmt.Sprintf("the environment has %s, which means nothing here", name)
		if s := nearest(name, names); s != "" {
			text += ": did you mean " + s + "?"
		}
		l.Warnings = append(l.Warnings, text)
	}
	return problems
}

// takesEmpty: an empty variable is a value where the key may be empty, and
// otherwise as good as none, as composed files have them.
func (l *Loaded) takesEmpty(k *Key) bool {
	switch v := k.value(&l.Config).(type) {
	case word:
		return !v.filled
	case words:
		return !v.filled
	case prefixes:
		return true
	}
	return false
}

func keysOf(env map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range env {
			if !yield(name) {
				return
			}
		}
	}
}

// apply sets a key to a text from the environment or a flag.
func (l *Loaded) apply(k *Key, place, text string) Problems {
	into := k.value(&l.Config)
	if into.set(text) == nil {
		l.places[k.Name] = place
		return nil
	}
	if k.Secret {
		return Problems{{place, "it must be " + into.allowed()}}
	}
	return Problems{{place, fmt.Sprintf("%s = %s: it must be %s", k.Name, quote(text), into.allowed())}}
}

// check looks at what keys mean together.
func (l *Loaded) check() (problems Problems) {
	add := func(key, format string, args ...any) {
		problems = append(problems, Problem{l.Place(key), fmt.Sprintf(format, args...)})
	}
	password := l.OwnPassword()
	switch {
	case l.DefaultPassword != "guest" && l.DefaultPassword != "" && l.DefaultPasswordHash != "":
		add("default_password_hash", "default_password and default_password_hash exclude each other: leave one out")
	case l.DefaultPassword == "" && l.DefaultPasswordHash == "":
		add("default_password", "default_password must not be empty")
	case l.DefaultUser != "guest" && !password:
		add("default_user", "default_user (--default-user) needs a default_password (--default-password) or default_password_hash")
	case password && !l.Given("default_user"):
		add("default_password", "a default password needs a default_user (--default-user) to go with it")
	}
	if l.DefaultPasswordHash != "" {
		l.DefaultPassword = ""
	}
	if password && slices.Contains(l.LoopbackUsers, l.DefaultUser) {
		l.Warnings = append(l.Warnings, fmt.Sprintf("the user %s has a password of its own, but may only connect from this machine: loopback_users names it", l.DefaultUser))
	}
	if l.TLS.Cert == "" && l.TLS.Key != "" {
		add("tls.key", "tls.key needs tls.cert")
	}
	if l.TLS.Cert == "" && len(l.TLS.SNI) > 0 {
		add("tls.sni", "[[tls.sni]] needs tls.cert, for clients that ask for no name or an unknown one")
	}
	if l.TLS.VerifyPeer != "none" && l.TLS.CA == "" {
		add("tls.verify_peer", "tls.verify_peer = %q needs tls.ca, whose certificates clients' are checked with", l.TLS.VerifyPeer)
	}
	if l.AMQP.ProxyProtocol && len(l.AMQP.ProxyTrustedSources) == 0 {
		add("amqp.proxy_protocol", "amqp.proxy_protocol needs amqp.proxy_trusted_sources: the addresses of the proxies")
	}
	if l.HTTP.ProxyProtocol && len(l.AMQP.ProxyTrustedSources) == 0 {
		add("http.proxy_protocol", "http.proxy_protocol needs amqp.proxy_trusted_sources: the addresses of the proxies")
	}
	if slices.Contains(l.Auth.Backends, "oauth2") && l.OAuth2.Issuer == "" && l.OAuth2.JWKSURI == "" {
		add("auth.backends", "the backend oauth2 needs oauth2.issuer or oauth2.jwks_uri")
	}
	if l.OAuth2.ClientID != "" && (!slices.Contains(l.Auth.Backends, "oauth2") || l.OAuth2.Issuer == "" || l.OAuth2.MgmtBaseURL == "") {
		add("oauth2.client_id", "oauth2.client_id turns single sign-on on, which needs the backend oauth2, oauth2.issuer and oauth2.mgmt_base_url")
	}
	if l.AMQP.Port < 0 && l.AMQP.UnixPath == "" && (l.AMQP.TLSPort < 0 || l.TLS.Cert == "") {
		add("amqp.port", "amqp.port is -1 and there is neither TLS nor a unix socket: no client could connect")
	}
	for _, path := range []struct{ key, text string }{{"pidfile", l.PIDFile}, {"log.file", l.Log.File}} {
		if path.text != "" && filepath.Dir(path.text) == path.text {
			add(path.key, "%s = %s: it is a directory", path.key, quote(path.text))
		}
	}
	return problems
}

// CheckText reads a file's text alone, without environment and flags, as if it
// were in a file of that name. The error holds all Problems there are.
func CheckText(name, text string) (*Loaded, error) {
	l := &Loaded{Config: Default(), File: name}
	places, err := readFile(name, text, &l.Config)
	l.places = places
	if err != nil {
		return nil, err
	}
	return l, l.check().orNil()
}
