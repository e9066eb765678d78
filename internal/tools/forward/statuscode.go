package forward

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// verdict is the meaning of a status code.
type verdict string

const (
	done    verdict = "done"    // 2xx
	wait    verdict = "wait"    // the endpoint is away, or wrongly configured: the record is not the cause
	again   verdict = "again"   // it may pass at the next attempt, and may have passed at this one
	refused verdict = "refused" // the endpoint will never take this record
)

// judge returns the verdict on an answer. A wrong address and missing rights wait, because they concern every record:
// as dead letters they would empty the topic into the dead-letter topic.
func judge(status int) verdict {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return wait
	case http.StatusRequestTimeout, http.StatusConflict:
		return again
	}
	switch status / 100 {
	case 2:
		return done
	case 3: // a redirect would send the record, and its headers, to an address that is not configured
		return wait
	case 4:
		return refused
	}
	return again
}

// untouched reports whether the status proves that the endpoint has done nothing. A gateway's 502, 503 or 504 proves
// nothing: it may have passed the request on.
func untouched(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict:
		return false
	}
	return status/100 == 3 || status/100 == 4
}

// mostPause is the longest pause that an endpoint may ask for.
const mostPause = 30 * time.Second

// retryAfter reads the header Retry-After: seconds or a date (RFC 9110, 10.2.3). Zero: there is none.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	var pause time.Duration
	if n, err := strconv.ParseUint(header, 10, 32); err == nil {
		pause = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		pause = at.Sub(now)
	}
	return min(max(pause, 0), mostPause)
}
