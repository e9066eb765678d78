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

// checkConnector asks the connector of this configuration, if one answers at http.listen: its waits are in no catalog,
// and a check that finds nothing beside a connector that is halted would mislead.
func checkConnector(ctx context.Context, c *config.Loaded) []preflight.Finding {
	if c.Source == config.SourcePolling {
		told, url, err := askPolling(ctx, c)
		if err != nil {
			return nil
		}
		return ownAccount(url, told.Ready, told.ReadyReason, told.State.Name, pollingRemedy(&told))
	}
	told, url, err := askConnector(ctx, c)
	if err != nil {
		return nil
	}
	return ownAccount(url, told.Ready, told.ReadyReason, told.State.Name, told.Cause.Remedy())
}

// pollingRemedy is the next step of a relay that is not ready.
func pollingRemedy(told *polling.Status) fault.Remedy {
	switch {
	case len(told.Halted) > 0:
		return told.Halted[0].Remedy()
	case len(told.Waits) > 0:
		return told.Waits[0].Remedy()
	}
	return told.State.Remedy()
}

func ownAccount(url string, ready bool, reason string, state relay.StateName, next fault.Remedy) []preflight.Finding {
	f := preflight.Finding{Level: preflight.OK, Subject: "connector " + strings.TrimSuffix(url, "/status")}
	switch {
	case ready:
		f.Found = "It runs and is ready."
	case state == relay.WaitingForSlot:
		f.Found = "It runs, and " + reason + "."
	default:
		f.Level = preflight.Fail
		switch state {
		case relay.Paused, relay.Starting, relay.Snapshotting, relay.Draining:
			f.Level = preflight.Warn // as it was asked to, or not for long
		}
		f.Found = "It runs and is not ready: " + strings.TrimSuffix(reason, ".") + "."
		f.Why = "This is its own account, of this moment."
		f = f.With(next)
	}
	return []preflight.Finding{f}
}
