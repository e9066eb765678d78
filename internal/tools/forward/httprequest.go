package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// keptAnswer is how much of an answer is read, so that its connection can be used again.
const keptAnswer = 64 << 10

// answerError is an answer that is not a success. It holds nothing that the endpoint has said but the status: an answer
// may repeat the payload, and errors go to the log.
type answerError struct {
	url    string
	status int
	pause  time.Duration
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("POST %s: the answer is %d %s", e.url, e.status, http.StatusText(e.status))
	switch judge(e.status) {
	case wait:
		if e.status/100 == 3 {
			return text + ", and redirects are not followed: give --to the address itself"
		}
		if untouched(e.status) && e.status != http.StatusTooEarly && e.status != http.StatusTooManyRequests {
			return text + ": look at the address and the credentials; all records wait"
		}
	case refused:
		return text + ", so this record will not be sent again"
	}
	return text
}

// call sends one record. The error's type decides the consumer's reaction: see consumer.Handler.
func (f *forwarder) call(ctx context.Context, m consumer.Message) error {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	began := time.Now()
	status, pause, sent, err := f.post(ctx, &m)
	switch {
	case err != nil && !sent:
		f.metrics.observe("not_sent", began)
		return f.untouched(err)
	case err != nil:
		f.metrics.observe(string(again), began)
		return err
	}
	v := judge(status)
	f.metrics.observe(string(v), began)
	if v == done {
		return nil
	}
	answer := &answerError{f.opts.shown(), status, pause}
	switch {
	case v == refused:
		return f.deadLetterError(answer)
	case untouched(status):
		return f.untouched(answer)
	case v == wait && !f.opts.AtMostOnce:
		return consumer.Unavailable(answer)
	}
	return answer
}

// untouched marks an error after which the endpoint has done nothing: the record waits, and with AtMostOnce its claim
// is released.
func (f *forwarder) untouched(err error) error {
	return consumer.Unavailable(fmt.Errorf("%w: %w", inbox.ErrNotSent, err))
}

// deadLetterError marks the record as a dead letter. With AtMostOnce its claim is released, so that the letter can be
// retried.
func (f *forwarder) deadLetterError(err error) error {
	if f.opts.AtMostOnce {
		err = fmt.Errorf("%w: %w", inbox.ErrNotSent, err)
	}
	return consumer.Permanent(err)
}

// post makes the request. sent is false if no connection was there to write it to.
func (f *forwarder) post(ctx context.Context, m *consumer.Message) (
	status int, pause time.Duration, sent bool, err error,
) {
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }}
	ctx = httptrace.WithClientTrace(ctx, trace)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.opts.URL.String(), bytes.NewReader(m.Value))
	if err != nil {
		return 0, 0, false, f.said(err)
	}
	f.opts.set(req.Header, m)
	for _, h := range f.opts.Headers {
		value, err := h.Value()
		if err != nil {
			return 0, 0, false, fmt.Errorf("header %s: %w", h.Name, err)
		}
		req.Header.Set(h.Name, value)
	}
	res, err := f.client.Do(req)
	if err != nil {
		var of *url.Error // its text has the URL in quotes
		if sent && errors.As(err, &of) {
			err = unquoted(of.Err)
		}
		return 0, 0, sent, f.said(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, keptAnswer) // the status is the answer; the body decides nothing
	return res.StatusCode, retryAfter(res.Header.Get("Retry-After"), time.Now()), true, nil
}

// said is the error without the URL that net/http adds, whose query may hold a secret.
func (f *forwarder) said(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("POST %s: %w", f.opts.shown(), err)
}

// unquoted is an error after the request was sent, without net/http's quotes of an answer that it cannot read: an
// answer may repeat the request.
func unquoted(err error) error {
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) || strings.Contains(err.Error(), `"`) {
		return errors.New("the answer is not HTTP")
	}
	return err
}

// shown is the address as far as it may be shown.
func (o *Options) shown() string {
	return (&url.URL{Scheme: o.URL.Scheme, Host: o.URL.Host, Path: o.URL.Path}).String()
}
