package wire

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// The beginnings of sentences that name the broker themselves; see fault.Wait.Sentence.
const (
	theBroker = "The broker at "
	oneBroker = "One of the brokers "
)

// Error says what the broker does in words where it can. addr is empty where err does.
func (e *DialError) Error() string {
	var s *Silence
	if errors.As(e.err, &s) {
		return s.Error()
	}
	if what := fault.Connection(e.err); what != "" && e.addr != "" {
		return "the broker at " + e.addr + resolved(e.addr, e.err) + " " + what
	}
	return e.err.Error()
}

// resolved is the address that a name led to, where the error knows it: localhost that is [::1] where the broker
// listens on 127.0.0.1 only is a riddle otherwise.
func resolved(addr string, err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || op.Addr == nil || op.Addr.String() == addr {
		return ""
	}
	return " (" + op.Addr.String() + ")"
}

// Sentences says why there is no connection: a sentence for each broker that was tried.
func Sentences(object string, err error) string {
	text := err.Error()
	var (
		de *DialError
		s  *Silence
	)
	if errors.As(err, &s) && !errors.As(err, &de) {
		text = s.Error()
	} else if what := fault.Connection(err); what != "" && !errors.As(err, &de) {
		text = subject(object) + " " + what
	}
	var all []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, ".\n") + "."
		if rest, ok := strings.CutPrefix(line, "the broker at "); ok {
			line = theBroker + rest
		}
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, " ")
}

// subject begins a sentence about `broker b:9092` or `brokers b:9092,c:9092`.
func subject(object string) string {
	_, addrs, _ := strings.Cut(object, " ")
	if strings.Contains(addrs, ",") {
		return oneBroker + strings.ReplaceAll(addrs, ",", ", ")
	}
	return theBroker + addrs
}
