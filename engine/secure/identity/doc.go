// Package identity finds out who clients are: SASL mechanisms beyond a name and a
// password, several sources of users in an order, and a lock on addresses from
// which passwords are guessed.
//
// Threading: Authenticators and mechanisms from any goroutine; what one call of a
// mechanism's Begin returned, by its connection only.
package identity
