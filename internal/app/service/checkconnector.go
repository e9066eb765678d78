package service

import (
	"context"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// checkConnector asks the connector of this configuration, if one answers at http.listen: what it waits for is found in
// no catalog, and a check that finds nothing beside a connector that is halted would mislead.
func checkConnector(ctx context.Context, c *config.Loaded) []preflight.Finding {
	var st struct {
		ready  bool
		reason string
		state  relay.StateName
		next   fault.Remedy
	}
	url, err := statusURL(c)
	if err != nil {
		return nil
	}
	if c.Source == config.SourcePolling {
		var told polling.Status
		if _, err := askFor(ctx, url, "a connector that polls", &told, func() bool {
			return told.Source == config.SourcePolling && told.State.Name != ""
		}); err != nil {
			return nil
		}
		st.ready, st.reason, st.state, st.next = told.Ready, told.ReadyReason, told.State.Name, told.State.Remedy()
		switch {
		case len(told.Halted) > 0:
			st.next = told.Halted[0].Remedy()
		case len(told.Waits) > 0:
			st.next = told.Waits[0].Remedy()
		}
	} else {
		told, _, err := askConnector(ctx, c)
		if err != nil {
			return nil
		}
		st.ready, st.reason, st.state, st.next = told.Ready, told.ReadyReason, told.State.Name, told.Cause.Remedy()
	}
	f := preflight.Finding{Level: preflight.OK, Subject: "connector " + strings.TrimSuffix(url, "/status")}
	switch {
	case st.ready:
		f.Found = "It runs and is ready."
	case st.state == relay.WaitingForSlot:
		f.Found = "It runs, and " + st.reason + "."
	default:
		f.Level = preflight.Fail
		switch st.state {
		case relay.Paused, relay.Starting, relay.Snapshotting, relay.Draining:
			f.Level = preflight.Warn // as it was asked to, or not for long
		}
		f.Found = "It runs and is not ready: " + strings.TrimSuffix(st.reason, ".") + "."
		f.Why = "This is its own account, of this moment."
		f = f.With(st.next)
	}
	return []preflight.Finding{f}
}
