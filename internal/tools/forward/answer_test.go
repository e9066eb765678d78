package forward

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// endpoint answers without a network.
type endpoint func(*http.Request) *http.Response

func (e endpoint) RoundTrip(r *http.Request) (*http.Response, error) { return e(r), nil }

// answering is a forwarder to an endpoint that always answers this.
func answering(status int, header http.Header) *forwarder {
	return &forwarder{
		opts:    Options{URL: &url.URL{Scheme: "https", Host: "example.com"}, Timeout: time.Minute},
		metrics: NewMetrics(prometheus.NewRegistry()),
		client: &http.Client{Transport: endpoint(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: r}
		})},
	}
}

// A gateway's 503 may have passed the request on: to call again, for as long as it lasts, is right at least once, and
// wrong at most once. What proves that the endpoint has done nothing waits either way.
func TestAGatewaysAnswerByMode(t *testing.T) {
	for name, test := range map[string]struct {
		status                      int
		atMostOnce, waits, released bool
	}{
		"503 at least once": {http.StatusServiceUnavailable, false, true, false},
		"502 at least once": {http.StatusBadGateway, false, true, false},
		"503 at most once":  {http.StatusServiceUnavailable, true, false, false},
		"502 at most once":  {http.StatusBadGateway, true, false, false},
		"504 at most once":  {http.StatusGatewayTimeout, true, false, false},
		"429 at least once": {http.StatusTooManyRequests, false, true, true},
		"429 at most once":  {http.StatusTooManyRequests, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := answering(test.status, nil)
			f.opts.AtMostOnce = test.atMostOnce
			err := f.call(t.Context(), *message(nil, nil))
			var answer *answerError
			require.ErrorAs(t, err, &answer)
			require.Equal(t, test.released, errors.Is(err, inbox.ErrNotSent))
			if waits := consumer.Unavailable(answer); test.waits {
				require.IsType(t, waits, err)
			} else {
				require.Equal(t, error(answer), err)
			}
		})
	}
}

// An endpoint that asks for a pause gets it, after the handler, so that no transaction is open meanwhile. What it will
// never take, or says nothing about, goes on at once, and so does a relay that is being stopped.
func TestThePauseThatIsAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header string
		want   time.Duration
	}{
		"busy":                 {http.StatusTooManyRequests, "7", 7 * time.Second},
		"away":                 {http.StatusServiceUnavailable, "7", 7 * time.Second},
		"failed":               {http.StatusInternalServerError, "7", 7 * time.Second},
		"for too long":         {http.StatusServiceUnavailable, "3600", mostPause},
		"away, without a word": {http.StatusServiceUnavailable, "", 0},
		"never":                {http.StatusUnprocessableEntity, "7", 0},
		"done":                 {http.StatusOK, "7", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := answering(test.status, http.Header{"Retry-After": {test.header}})
				began := time.Now()
				var returned time.Time
				_ = f.obeying(func(ctx context.Context, m consumer.Message) error {
					err := f.call(ctx, m)
					returned = time.Now()
					return err
				})(t.Context(), *message(nil, nil))
				require.Equal(t, began, returned, "the handler itself does not wait")
				require.Equal(t, test.want, time.Since(began))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := answering(http.StatusServiceUnavailable, http.Header{"Retry-After": {"20"}})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		err := f.obeying(f.call)(ctx, *message(nil, nil))
		require.Error(t, err)
		require.Equal(t, time.Second, time.Since(began))
	})
}
