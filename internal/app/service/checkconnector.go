package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/decision"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// checkConnector asks the connector of this configuration, if one answers at http.listen: its waits are in no catalog,
// and a check that finds nothing beside a connector that is halted would mislead.
func checkConnector(ctx context.Context, c *config.Loaded) ([]preflight.Finding, []fault.Wait) {
	if c.Source == config.SourcePolling {
		told, url, err := askPolling(ctx, c)
		if err != nil {
			return onRecord(ctx, c), nil
		}
		return ownAccount(url, told.Ready, told.ReadyReason, told.State.Name, pollingRemedy(&told)), told.Waits
	}
	told, url, err := askConnector(ctx, c)
	if err != nil {
		return onRecord(ctx, c), nil
	}
	return ownAccount(url, told.Ready, told.ReadyReason, told.State.Name, told.Cause.Remedy()), told.Waits
}

// onRecord is what the table of decisions says of a connector that does not answer, because it runs elsewhere or has
// ended: rows at which it is halted, and a pause.
func onRecord(ctx context.Context, c *config.Loaded) (findings []preflight.Finding) {
	all, err := wiring.Decisions(c).List(ctx)
	if err != nil {
		return nil // the table has findings of its own
	}
	for _, d := range all {
		f := preflight.Finding{
			Level: preflight.Warn, Subject: "event " + d.EventID,
			Why: "No connector answers at http.listen. This is on record in the table of decisions.",
		}
		switch {
		case d.ClosedAt != nil:
			continue
		case d.Kind == decision.Halted:
			f.Found = fmt.Sprintf("The connector halted at it at %s: %s.", human.Time(d.At),
				strings.TrimSuffix(d.Reason, "."))
			f = f.With(fault.Do("See which rows it is halted at, and pass them or correct what writes them.",
				"cdc-outbox row list"))
		case d.Kind == decision.Pause:
			f.Subject = connectorSubject + "decisions"
			f.Found = fmt.Sprintf("It is paused since %s, by %s: %s.", human.Time(d.At), d.By,
				strings.TrimSuffix(d.Reason, "."))
			f = f.With(fault.Do("Resume when the reason no longer exists.", "cdc-outbox resume"))
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

// inConnectorsWords gives a finding about a broker the remedy of the connector that waits for that broker: it has been
// connected before, and knows what a first connection can only guess.
func inConnectorsWords(findings []preflight.Finding, waits []fault.Wait) []preflight.Finding {
	for i, f := range findings {
		address, about := strings.CutPrefix(f.Subject, "broker ")
		if !about || f.Level == preflight.OK {
			continue
		}
		for _, w := range waits {
			names := strings.Split(strings.TrimPrefix(w.Object, "brokers "), ", ")
			if strings.HasPrefix(w.Object, "broker") && slices.Contains(names, address) {
				findings[i] = f.With(w.Remedy())
			}
		}
	}
	return findings
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

// connectorSubject begins the subject of a connector's own account.
const connectorSubject = "connector "

// Runs reports whether a connector is among what a check has found.
func Runs(findings []preflight.Finding) bool {
	return slices.ContainsFunc(findings, func(f preflight.Finding) bool {
		return strings.HasPrefix(f.Subject, connectorSubject)
	})
}

func ownAccount(url string, ready bool, reason string, state relay.StateName, next fault.Remedy) []preflight.Finding {
	f := preflight.Finding{Level: preflight.OK, Subject: connectorSubject + strings.TrimSuffix(url, "/status")}
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
