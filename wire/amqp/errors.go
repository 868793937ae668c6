package amqp

import (
	"fmt"
	"unicode/utf8"
)

// Reply codes (specification 1.5; 312 and 313 also appear in basic.return).
const (
	CodeSuccess            uint16 = 200
	CodeContentTooLarge    uint16 = 311
	CodeNoRoute            uint16 = 312
	CodeNoConsumers        uint16 = 313
	CodeConnectionForced   uint16 = 320
	CodeInvalidPath        uint16 = 402
	CodeAccessRefused      uint16 = 403
	CodeNotFound           uint16 = 404
	CodeResourceLocked     uint16 = 405
	CodePreconditionFailed uint16 = 406
	CodeFrameError         uint16 = 501
	CodeSyntaxError        uint16 = 502
	CodeCommandInvalid     uint16 = 503
	CodeChannelError       uint16 = 504
	CodeUnexpectedFrame    uint16 = 505
	CodeResourceError      uint16 = 506
	CodeNotAllowed         uint16 = 530
	CodeNotImplemented     uint16 = 540
	CodeInternalError      uint16 = 541
)

// replyCodes is the one table of reply codes: name on the wire and whether the
// code closes the connection (hard) or only the channel.
var replyCodes = [...]struct {
	code uint16
	name string
	hard bool
}{
	{CodeSuccess, "REPLY_SUCCESS", false},
	{CodeContentTooLarge, "CONTENT_TOO_LARGE", false},
	{CodeNoRoute, "NO_ROUTE", false},
	{CodeNoConsumers, "NO_CONSUMERS", false},
	{CodeConnectionForced, "CONNECTION_FORCED", true},
	{CodeInvalidPath, "INVALID_PATH", true},
	{CodeAccessRefused, "ACCESS_REFUSED", false},
	{CodeNotFound, "NOT_FOUND", false},
	{CodeResourceLocked, "RESOURCE_LOCKED", false},
	{CodePreconditionFailed, "PRECONDITION_FAILED", false},
	{CodeFrameError, "FRAME_ERROR", true},
	{CodeSyntaxError, "SYNTAX_ERROR", true},
	{CodeCommandInvalid, "COMMAND_INVALID", true},
	{CodeChannelError, "CHANNEL_ERROR", true},
	{CodeUnexpectedFrame, "UNEXPECTED_FRAME", true},
	{CodeResourceError, "RESOURCE_ERROR", true},
	{CodeNotAllowed, "NOT_ALLOWED", true},
	{CodeNotImplemented, "NOT_IMPLEMENTED", true},
	{CodeInternalError, "INTERNAL_ERROR", true},
}

// Error is a protocol error, ready to go out as connection.close or channel.close.
type Error struct {
	Code     uint16 // reply code
	Text     string // reply text, at most ShortStringMax bytes
	MethodID uint32 // the offending method (class id << 16 | method id), 0 when there is none
}

// Error implements error: "amqp: 404 NOT_FOUND - no queue 'x' in vhost '/' (queue.declare)".
func (e *Error) Error() string {
	if e.MethodID == 0 {
		return fmt.Sprintf("amqp: %d %s", e.Code, e.Text)
	}
	return fmt.Sprintf("amqp: %d %s (%s)", e.Code, e.Text, MethodName(e.MethodID))
}

// Hard tells whether the error closes the connection rather than the channel.
// Codes outside the table are hard: nobody knows what state they leave behind.
func (e *Error) Hard() bool {
	for i := range replyCodes {
		if replyCodes[i].code == e.Code {
			return replyCodes[i].hard
		}
	}
	return true
}

// CodeName returns the name of a reply code, "NOT_FOUND"; "UNKNOWN" when it is not in the table.
func CodeName(code uint16) string {
	for i := range replyCodes {
		if replyCodes[i].code == code {
			return replyCodes[i].name
		}
	}
	return "UNKNOWN"
}

// Errorf builds an error whose text is "NAME - formatted". The text is cut to
// ShortStringMax bytes, on a rune boundary, because it travels as a short string.
func Errorf(code uint16, methodID uint32, format string, args ...any) *Error {
	text := CodeName(code) + " - " + fmt.Sprintf(format, args...)
	return &Error{Code: code, Text: truncateText(text), MethodID: methodID}
}

// truncateText cuts text to ShortStringMax bytes without splitting a rune.
func truncateText(text string) string {
	if len(text) <= ShortStringMax {
		return text
	}
	end := ShortStringMax
	// A rune has at most three continuation bytes; bytes that are no UTF-8 at all are cut anywhere.
	for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(text[end]); back++ {
		end--
	}
	if !utf8.RuneStart(text[end]) {
		end = ShortStringMax
	}
	return text[:end]
}
