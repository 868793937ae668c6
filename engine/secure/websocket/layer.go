package websocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/basaltmq/basaltmq/engine/loop"
)

// Opcodes of frames.
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// Codes of close frames that are sent here.
const (
	closeNormal      = 1000
	closeProtocol    = 1002
	closeUnsupported = 1003
)

const (
	finBit, maskBit = 0x80, 0x80
	headerBytesMax  = 14
	controlBytesMax = 125
)

// Layer is the framing of one connection. It implements loop.Layer.
type Layer struct {
	inner loop.Layer // TLS; nil: none
	early []byte     // of frames, read before the first Decode

	header  [headerBytesMax]byte // of the frame that is coming
	headerN int                  // how much of it is there
	left    uint64               // payload bytes still to come
	mask    [4]byte
	maskAt  int // of mask, for the next byte
	opcode  byte
	inFrame bool
	partial bool // a message goes on in continuation frames

	control  [controlBytesMax]byte // payload of a control frame
	controlN int
	pong     []byte // to be sent; nil: none
	close    uint16 // code to be sent; 0: none
	closed   bool   // the close frame is sent, or about to be
	done     bool   // the peer's close frame has come
	ending   bool   // the inner layer is to end
}

// NewLayer makes the framing over another layer, or none. early are bytes of
// frames that came with the upgrade request.
func NewLayer(inner loop.Layer, early []byte) *Layer { return &Layer{inner: inner, early: early} }

// violation is a breach of the protocol, with the code that tells the peer.
type violation struct {
	code uint16
	text string
}

func (v *violation) Error() string { return "websocket: " + v.text }

func broken(text string) error { return &violation{closeProtocol, text} }

// Decode implements loop.Layer.
func (l *Layer) Decode(raw, scratch []byte) (plain []byte, err error) {
	early := copy(scratch, l.early)
	if l.inner != nil {
		raw, err = l.inner.Decode(raw, scratch[early:])
	}
	if early > 0 {
		l.early = nil
		raw = scratch[:early+copy(scratch[early:], raw)]
	}
	plain, frameErr := l.frames(raw)
	var v *violation
	if errors.As(frameErr, &v) && !l.closed {
		l.close, l.closed = v.code, true
	}
	if frameErr != nil {
		err = frameErr
	}
	return plain, err
}

// frames works data off and returns the payloads, moved to its beginning.
func (l *Layer) frames(data []byte) (plain []byte, err error) {
	n := 0
	for rest := data; len(rest) > 0; {
		if l.done {
			return data[:n], io.EOF // what follows a close frame means nothing
		}
		if !l.inFrame {
			used, complete, err := l.frameHeader(rest)
			rest = rest[used:]
			if err != nil {
				return data[:n], err
			}
			if !complete {
				break
			}
			if l.left > 0 {
				continue
			}
		}
		part := rest[:min(uint64(len(rest)), l.left)]
		rest = rest[len(part):]
		l.left -= uint64(len(part))
		l.unmask(part)
		if l.opcode >= opClose {
			l.controlN += copy(l.control[l.controlN:], part)
		} else {
			n += copy(data[n:], part)
		}
		if l.left == 0 {
			l.inFrame = false
			if err := l.frameEnd(); err != nil {
				return data[:n], err
			}
		}
	}
	return data[:n], nil
}

// frameHeader collects the header of the next frame.
func (l *Layer) frameHeader(data []byte) (used int, complete bool, err error) {
	for {
		need := 2
		if l.headerN >= 2 {
			need += 4
			switch l.header[1] &^ maskBit {
			case 126:
				need += 2
			case 127:
				need += 8
			}
			// Before anything is waited for: a peer that speaks something else
			// should hear of it.
			if err := l.checkHeader(); err != nil {
				return used, false, err
			}
		}
		if l.headerN >= 2 && l.headerN == need {
			return used, true, l.frameBegin(need)
		}
		k := copy(l.header[l.headerN:need], data[used:])
		if l.headerN, used = l.headerN+k, used+k; k == 0 {
			return used, false, nil
		}
	}
}

// checkHeader looks at the first two bytes.
func (l *Layer) checkHeader() error {
	first, second := l.header[0], l.header[1]
	opcode, fin := first&15, first&finBit != 0
	switch {
	case first&0x70 != 0:
		return broken("a frame uses extensions, and there are none")
	case second&maskBit == 0:
		return broken("a client's frame is not masked")
	case opcode > opPong || opcode > opBinary && opcode < opClose:
		return broken("a frame of an unknown kind")
	case opcode >= opClose && (!fin || second&^maskBit > controlBytesMax):
		return broken("a control frame is in pieces, or too long")
	case opcode == opText:
		return &violation{closeUnsupported, "a text message: AMQP is binary"}
	case opcode == opBinary && l.partial:
		return broken("a message begins inside another")
	case opcode == opContinuation && !l.partial:
		return broken("a message goes on that has not begun")
	}
	return nil
}

// frameBegin takes the complete header.
func (l *Layer) frameBegin(size int) error {
	l.left = uint64(l.header[1] &^ maskBit)
	switch l.left {
	case 126:
		l.left = uint64(binary.BigEndian.Uint16(l.header[2:]))
	case 127:
		if l.left = binary.BigEndian.Uint64(l.header[2:]); l.left>>63 != 0 {
			return broken("a frame of an impossible length")
		}
	}
	l.mask, l.maskAt = [4]byte(l.header[size-4:size]), 0
	l.opcode = l.header[0] & 15
	if l.opcode < opClose {
		l.partial = l.header[0]&finBit == 0
	}
	l.headerN, l.controlN, l.inFrame = 0, 0, true
	return nil
}

// unmask undoes the mask, eight bytes at a time.
func (l *Layer) unmask(data []byte) {
	var key [8]byte
	for i := range key {
		key[i] = l.mask[(l.maskAt+i)&3]
	}
	l.maskAt = (l.maskAt + len(data)) & 3
	wide := binary.LittleEndian.Uint64(key[:])
	for ; len(data) >= 8; data = data[8:] {
		binary.LittleEndian.PutUint64(data, binary.LittleEndian.Uint64(data)^wide)
	}
	for i := range data {
		data[i] ^= key[i]
	}
}

// frameEnd acts on a complete control frame.
func (l *Layer) frameEnd() error {
	switch l.opcode {
	case opPing:
		l.pong = append([]byte{}, l.control[:l.controlN]...)
	case opClose:
		l.done = true
		code := uint16(closeNormal)
		if l.controlN > 0 {
			if l.controlN < 2 {
				return broken("a close frame without its code")
			}
			if code = binary.BigEndian.Uint16(l.control[:]); !validClose(code) {
				return broken(fmt.Sprintf("a close frame with the code %d", code))
			}
		}
		if !l.closed {
			l.close, l.closed = code, true
		}
		return io.EOF
	}
	return nil
}

// validClose says whether a code may be sent.
func validClose(code uint16) bool {
	return code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code <= 4999
}

// Encode implements loop.Layer.
func (l *Layer) Encode(dst, plain []byte) (_ []byte, err error) {
	var small [2*headerBytesMax + controlBytesMax]byte
	head := small[:0]
	if l.pong != nil {
		head = append(appendHeader(head, opPong, len(l.pong)), l.pong...)
		l.pong = nil
	}
	if len(plain) > 0 {
		head = appendHeader(head, opBinary, len(plain))
	} else if l.close != 0 {
		head = binary.BigEndian.AppendUint16(appendHeader(head, opClose, 2), l.close)
		l.close = 0
	}
	if l.inner == nil {
		return append(append(dst, head...), plain...), nil
	}
	if dst, err = l.inner.Encode(dst, head); err != nil {
		return dst, err
	}
	if len(plain) > 0 {
		dst, err = l.inner.Encode(dst, plain)
	}
	if l.ending && l.close == 0 && err == nil {
		l.ending = false
		l.inner.End()
		dst, err = l.inner.Encode(dst, nil)
	}
	return dst, err
}

func appendHeader(dst []byte, opcode byte, n int) []byte {
	switch {
	case n < 126:
		return append(dst, finBit|opcode, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, finBit|opcode, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, finBit|opcode, 127), uint64(n))
}

// Pending implements loop.Layer.
func (l *Layer) Pending() bool {
	return l.pong != nil || l.close != 0 || l.ending || l.inner != nil && l.inner.Pending()
}

// End implements loop.Layer: a close frame, then the inner layer's end.
func (l *Layer) End() {
	if !l.closed {
		l.close, l.closed = closeNormal, true
	}
	l.ending = l.inner != nil
}
