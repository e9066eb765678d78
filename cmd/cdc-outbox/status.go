package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// status is what /status and status --json answer: the connector's own account, and the slot as the server shows it.
type status struct {
	connector.Status
	ReplicationSlot *slotmonitor.Slot `json:"replication_slot"` // null: there is none, or it could not be looked at
	Cause           alert.Cause       `json:"cause"`            // why the slot is where it is
	Alerts          []firingAlert     `json:"alerts"`           // what fires, the worst first; none are known where no connector answers
}

// alert is one that fires, with where the documentation says what to do about it.
type firingAlert struct {
	alert.FiringAlert
	Runbook string `json:"runbook"`
}

func alerts(firing []alert.FiringAlert) []firingAlert {
	all := make([]firingAlert, 0, len(firing))
	for _, a := range firing {
		all = append(all, firingAlert{a, webhook.Runbook(a.Rule)})
	}
	return all
}

// notRunning is the state that status shows when no connector answers.
const notRunning = relay.NotRunning

// What status adds to the connector's waits.
const (
	waitPostgres    = diagnose.PostgresUnreachable
	waitSlotMissing = diagnose.SlotMissing
	waitSlotLost    = slotmonitor.CauseLost
	waitStandby     = diagnose.Standby
)

// withSlot adds the slot, or why there is none, to what the connector says. slot is nil when the server has none.
func withSlot(st connector.Status, slot *slotmonitor.Slot, err error) status {
	wait := func(kind, reason, next string) {
		st.Waits = append(st.Waits, fault.Wait{
			Kind: kind, Object: fmt.Sprintf("slot %q", st.Slot), Reason: reason, Next: next, Since: time.Now().UTC(),
		})
	}
	if st.State.Name == relay.WaitingForSlot {
		wait(waitStandby, diagnose.Holder(st.Account(), slot), "")
		st.Waits[len(st.Waits)-1].Since = st.State.Since
	}
	switch {
	case err != nil:
		wait(waitPostgres, "Postgres cannot be asked about the slot: "+err.Error(), "See whether the server runs and postgres.dsn leads to it.")
	case slot == nil:
		wait(waitSlotMissing, "the server has no slot of this name", "cdc-outbox check says what is missing and how to mend it.")
	case slot.WALStatus == slotmonitor.WALLost:
		wait(waitSlotLost, "the server has removed what the slot needs; it can never be read again", "cdc-outbox check says how to begin anew.")
	}
	cause := diagnose.Cause(st.Account(), slot, time.Now())
	if slot != nil && slot.Cause.Code == slotmonitor.CauseIdle && cause.Code != slotmonitor.CauseIdle {
		told := *slot // the server sees nothing wrong, and only the connector knows what is waited for
		told.Cause = cause
		slot = &told
	}
	return status{Status: st, ReplicationSlot: slot, Cause: cause, Alerts: []firingAlert{}}
}

func (a *app) statusCommand() *cobra.Command {
	var asJSON, why bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the slot, the connector, and what it waits for",
		Long: `status asks Postgres for the slot, which works also when the connector does not run, and asks the connector at
http.listen how it is. With --why it says only what the slot waits for, and what to do about it. The exit code is 3 when the slot is missing or lost.`,
		Example: `  cdc-outbox status --config cdc-outbox.yaml
  cdc-outbox status --why
  cdc-outbox status --json | jq .replication_slot.retained_wal_bytes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if c.Source == config.SourcePolling {
				return a.statusPolling(cmd.Context(), c, why, asJSON)
			}
			st, source, err := look(cmd.Context(), c)
			switch {
			case cmd.Context().Err() != nil:
				return cmd.Context().Err() // what could not be learnt for that reason says nothing of the slot
			case why && asJSON:
				if perr := a.printJSON(st.Cause); perr != nil {
					return perr
				}
				return err
			case why:
				if perr := writeCause(a.stdout, st.Cause); perr != nil {
					return perr
				}
				return err
			case asJSON:
				if perr := a.printJSON(st); perr != nil {
					return perr
				}
				return err
			}
			if perr := writeStatus(a.stdout, st, source); perr != nil {
				return perr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&why, "why", false, "say only what the slot waits for")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, the same as /status")
	return cmd
}

// look asks the connector and the server. What it could not learn is said in the status; the error, for the exit code,
// is about the slot only. source is where the connector was looked for.
func look(ctx context.Context, c *config.Loaded) (st status, source string, err error) {
	told, source, cerr := askConnector(ctx, c)
	if cerr != nil {
		told = status{Status: connector.Status{
			State: relay.State{Name: notRunning, Reason: cerr.Error(), Since: time.Now().UTC()},
			Slot:  c.Postgres.Slot, Publication: c.Postgres.Publication, ReadyReason: string(notRunning), Waits: []fault.Wait{},
			Window: connector.Window{Window: relay.Window{MaxRecords: c.Window.Records, MaxBytes: int64(c.Window.Bytes)}},
			Topics: []telemetry.TopicCount{}, Aside: []relay.BadRow{},
		}}
	}
	con := told.Status
	defer func() { st.Alerts = append(st.Alerts, told.Alerts...) }()
	slots, err := slotmonitor.Look(ctx, wiring.Monitor(c))
	object := fmt.Sprintf("slot %q", c.Postgres.Slot)
	switch {
	case err != nil:
		return withSlot(con, nil, err), source, &fault.Error{Kind: fault.Retry, Object: "postgres", Err: err}
	case len(slots) == 0:
		return withSlot(con, nil, nil), source, &fault.Error{Kind: fault.Operator, Object: object, Err: errors.New("it does not exist"),
			Next: "cdc-outbox setup creates it; if it was there before, cdc-outbox check says what that means"}
	case slots[0].WALStatus == slotmonitor.WALLost:
		err = &fault.Error{Kind: fault.Operator, Object: object, Err: errors.New("it is lost"), Next: "cdc-outbox check says how to begin anew"}
	}
	return withSlot(con, &slots[0], nil), source, err
}

// askConnector gets /status from the connector that this configuration would run.
func askConnector(ctx context.Context, c *config.Loaded) (status, string, error) {
	var st status
	url, err := statusURL(c)
	if err != nil {
		return st, url, err
	}
	code, body, err := fetch(ctx, url)
	if err != nil {
		return st, url, fmt.Errorf("nothing answers at %s", url)
	}
	err = json.Unmarshal(body, &st)
	switch {
	case code != http.StatusOK || err != nil || st.State.Name == "":
		return st, url, fmt.Errorf("what answers at %s is not a connector", url)
	case st.Slot != c.Postgres.Slot:
		return st, url, fmt.Errorf("the connector at %s reads another slot, %q", url, st.Slot)
	}
	st.Waits = withoutSlotWaits(st.Waits)
	return st, url, nil
}

// statusURL is where the connector that this configuration would run answers.
func statusURL(c *config.Loaded) (string, error) {
	if c.HTTP.Listen == config.ListenOff {
		return "http.listen is off", errors.New("http.listen is off, so a running connector cannot be asked")
	}
	host, port, err := net.SplitHostPort(c.HTTP.Listen)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/status", nil
}

// fetch asks one neighbour once: no proxy and no kept connection.
func fetch(ctx context.Context, url string) (code int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, body, err
}

// withoutSlotWaits drops what the connector's monitor said of the slot: it is about to be asked again.
func withoutSlotWaits(waits []fault.Wait) []fault.Wait {
	kept := []fault.Wait{}
	for _, w := range waits {
		switch w.Kind {
		case waitPostgres, waitSlotMissing, waitSlotLost, waitStandby:
		default:
			kept = append(kept, w)
		}
	}
	return kept
}
