package service

import (
	"context"
	"net/url"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// LookAt asks a connector at an address, wherever it runs, and nothing else. The error is about the answer.
func LookAt(ctx context.Context, address string) (st Status, err error) {
	at, err := statusAt(address)
	if err != nil {
		return st, err
	}
	answered, err := askFor(ctx, at, "a connector that reads the log", &st, func() bool {
		return st.State.Name != "" && st.Slot != ""
	})
	if err == nil {
		return st, nil
	}
	next := "See whether it runs, and what its http.listen is."
	if answered {
		next = "Name the address of its http.listen, such as http://host:9464."
	}
	return st, (&fault.Error{Kind: fault.Retry, Object: "connector", Err: err}).With(fault.Do(next))
}

// statusAt completes an operator's address: host:9464, http://host:9464/, or the whole address.
func statusAt(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fault.Usage("--url is not an address", "cdc-outbox status --url http://host:9464")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/status"
	}
	return u.String(), nil
}

// takeFrom adds the facts that only the connector knows: its alerts, its pace, and how the slot has changed over time.
func (st *Status) takeFrom(told *Status) {
	st.Alerts = append(st.Alerts, told.Alerts...)
	st.Pace, st.Gaps, st.Promises = told.Pace, told.Gaps, told.Promises
	if seen, now := told.ReplicationSlot, st.ReplicationSlot; seen != nil && now != nil && seen.Name == now.Name {
		merged := *now
		merged.GrowthPerSecond, merged.Growth15m = seen.GrowthPerSecond, seen.Growth15m
		merged.SecondsToLimit, merged.SecondsToFull = seen.SecondsToLimit, seen.SecondsToFull
		st.ReplicationSlot = &merged
	}
}
