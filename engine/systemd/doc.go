// Package systemd speaks with the service manager: it tells how the broker is
// (sd_notify(3)) and takes the sockets that were opened for it (sd_listen_fds(3)).
// Without a service manager everything does nothing.
//
// Invariants:
//
//  1. Nothing here delays or fails the broker: a service manager that does not
//     listen is not waited for.
//  2. The variables are taken out of the environment, so that no child process
//     speaks in the broker's name.
//
// Threading: a Notifier may be used by any goroutine.
package systemd
