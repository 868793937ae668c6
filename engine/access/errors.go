package access

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Reason says what kind of request was refused; an HTTP API makes a status of it.
type Reason uint8

const (
	Invalid  Reason = iota + 1 // the request makes no sense
	NotFound                   // what it names does not exist
	Exists                     // what it wants to create exists
)

// Error is a refused administrative request. Its text is for the operator.
type Error struct {
	Reason Reason
	Text   string
}

// Error implements error.
func (e *Error) Error() string { return "access: " + e.Text }

func errorf(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// Errorf makes an Error.
func Errorf(r Reason, format string, args ...any) error { return errorf(r, format, args...) }

// IsReason says whether err is an Error for that reason.
func IsReason(err error, r Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == r
}

// CheckName refuses names that cannot travel: empty, too long, not UTF-8. what
// says in the error whose name it is.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return errorf(Invalid, "the %s has no name", what)
	case len(name) > NameBytesMax:
		return errorf(Invalid, "the name of the %s has %d bytes; %d are possible", what, len(name), NameBytesMax)
	case !utf8.ValidString(name):
		return errorf(Invalid, "the name of the %s is not UTF-8", what)
	}
	return nil
}
