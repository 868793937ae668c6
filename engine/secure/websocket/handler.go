package websocket

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/secure/front"
	"github.com/basaltmq/basaltmq/engine/secure/tlslayer"
)

// acceptMagic is what the server proves that it understands with (RFC 6455, 1.3).
const acceptMagic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// answerTimeout bounds the sending of the upgrade's answer.
const answerTimeout = 10 * time.Second

// Handler answers upgrade requests, on whatever path, and hands the connections
// on.
type Handler struct {
	Accept   func(fd int, t amqp.Transport)
	Identify func(c *x509.Certificate) string // see front.Options
	Logger   *slog.Logger
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protocol, status, problem := judge(r)
	if problem != "" {
		if status == http.StatusUpgradeRequired {
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Sec-WebSocket-Version", "13")
		}
		h.Logger.Warn("a WebSocket is refused", "peer", r.RemoteAddr, "origin", r.Header.Get("Origin"), "reason", problem)
		http.Error(w, problem, status)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "this connection cannot change its protocol", http.StatusInternalServerError)
		return
	}
	c, buffered, err := hijacker.Hijack()
	if err != nil {
		h.Logger.Warn("a WebSocket could not be taken over", "peer", r.RemoteAddr, "err", err)
		return
	}
	if err := h.hand(c, buffered.Reader, r, protocol); err != nil {
		h.Logger.Warn("a WebSocket could not be taken over", "peer", r.RemoteAddr, "err", err)
	}
}

// judge says which sub-protocol to speak, or why not to.
func judge(r *http.Request) (protocol string, status int, problem string) {
	has := func(name, token string) bool {
		for _, line := range r.Header.Values(name) {
			for word := range strings.SplitSeq(line, ",") {
				if strings.EqualFold(strings.TrimSpace(word), token) {
					return true
				}
			}
		}
		return false
	}
	text := r.Header.Get("Sec-WebSocket-Key")
	key, err := base64.StdEncoding.DecodeString(text)
	switch {
	case r.Method != http.MethodGet || !has("Upgrade", "websocket") || !has("Connection", "upgrade"):
		return "", http.StatusBadRequest, "the only protocol to upgrade to is websocket, by GET"
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return "", http.StatusUpgradeRequired, "the version of WebSocket is 13"
	case err != nil || len(key) != 16 || len(text) != base64.StdEncoding.EncodedLen(16): // the decoder passes over line ends
		return "", http.StatusBadRequest, "Sec-WebSocket-Key is not base64 of 16 bytes"
	}
	asked := false
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for word := range strings.SplitSeq(line, ",") {
			word = strings.TrimSpace(word)
			asked = true
			if strings.HasPrefix(strings.ToLower(word), "amqp") && isToken(word) {
				return word, 0, ""
			}
		}
	}
	if asked {
		return "", http.StatusBadRequest, "the sub-protocol is amqp"
	}
	return "", 0, ""
}

// isToken keeps what is echoed to what a header may have.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// hand answers the request and gives the connection to its loop, which gets a
// descriptor of its own; c is closed.
func (h *Handler) hand(c net.Conn, buffered *bufio.Reader, r *http.Request, protocol string) error {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + acceptMagic))
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if protocol != "" {
		answer += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	// Not a detached TLS connection, which is its loop's.
	socket := c
	defer func() { socket.Close() }()
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(answer + "\r\n")); err != nil {
		return err
	}
	early := make([]byte, buffered.Buffered())
	if _, err := buffered.Read(early); err != nil && len(early) > 0 {
		return err
	}
	t := front.TransportOf(c)
	early = append(early, t.Early...)
	t.Early, t.WebSocket, t.Foreign = nil, true, foreign(r.Header.Get("Origin"))
	var inner loop.Layer
	if secured, ok := c.(*tls.Conn); ok {
		t.TLS = front.Describe(secured.ConnectionState(), h.Identify)
		layer, under, err := tlslayer.Detach(secured)
		if err != nil {
			return err
		}
		inner, socket = layer, under
	}
	t.Layer = NewLayer(inner, early)
	fd, err := front.TakeSocket(socket)
	if err != nil {
		return fmt.Errorf("websocket: %w", err)
	}
	h.Accept(fd, t)
	return nil
}

// foreign says whether a page of another machine's makes the connection: what it
// does is not this machine's doing, even if the browser runs here. Programs that
// are no browsers send no origin.
func foreign(origin string) bool {
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	if err != nil {
		return true
	}
	host := strings.ToLower(u.Hostname())
	ip, err := netip.ParseAddr(host)
	return host != "localhost" && (err != nil || !ip.Unmap().IsLoopback())
}
