package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// LookPolling asks the relay and the server. The error is about the latter.
func LookPolling(ctx context.Context, c *config.Loaded) (st polling.Status, url string, err error) {
	st, url, err = askPolling(ctx, c)
	cfg, cerr := wiring.Polling(c)
	if cerr != nil {
		return st, url, cerr
	}
	if err != nil {
		st = polling.Status{
			Source: config.SourcePolling, State: relay.State{
				Name: notRunning, Reason: err.Error(), Since: time.Now().UTC(),
			},
			ReadyReason: string(
				notRunning,
			), Waits: []fault.Wait{}, Halted: []*relay.HaltedRow{}, Workers: c.Polling.Workers, Promises: Promises(c),
		}
		for _, t := range cfg.Tables {
			st.Tables = append(st.Tables, t.String())
		}
	}
	if st.State.Name == notRunning {
		addPollingLastWord(ctx, c, &st)
	}
	b, err := polling.Look(ctx, cfg)
	if err != nil {
		return st, url, err
	}
	st.Backlog = &b
	return st, url, nil
}

// askPolling gets /status from the relay that this configuration would run with source: polling.
func askPolling(ctx context.Context, c *config.Loaded) (st polling.Status, url string, err error) {
	if url, err = statusURL(c); err != nil {
		return st, url, err
	}
	_, err = askFor(ctx, url, "a connector that polls", &st, func() bool {
		return st.Source == config.SourcePolling && st.State.Name != ""
	})
	return st, url, err
}

// askFor gets JSON from a process that should be what, such as "a connector"; fits reports whether the answer is from
// such a process. answered is false if nothing answers.
func askFor(ctx context.Context, url, what string, to any, fits func() bool) (answered bool, err error) {
	code, body, err := fetch(ctx, url)
	if err != nil {
		return false, fmt.Errorf("nothing answers at %s", url)
	}
	if err := json.Unmarshal(body, to); code != http.StatusOK || err != nil || !fits() {
		return true, fmt.Errorf("what answers at %s is not %s", url, what)
	}
	return true, nil
}

// Look asks the connector and the server. The status says if one of them could not be asked; the error, for the exit
// code, is about the slot only. source is the connector's address.
func Look(ctx context.Context, c *config.Loaded) (st Status, source string, err error) {
	told, source, cerr := askConnector(ctx, c)
	if cerr != nil {
		told = Status{Status: connector.Status{
			State: relay.State{Name: notRunning, Reason: cerr.Error(), Since: time.Now().UTC()},
			Slot:  c.Postgres.Slot, Publication: c.Postgres.Publication, ReadyReason: string(
				notRunning,
			), Waits: []fault.Wait{},
			Window: connector.Window{
				Window: relay.Window{MaxRecords: c.Window.Records, MaxBytes: int64(c.Window.Bytes)},
			},
			Topics: []telemetry.TopicCount{}, Aside: []relay.BadRow{},
		}}
	}
	con, asked, seen := told.Status, false, toldOf(told.Waits)
	defer func() {
		st.takeFrom(&told)
		if st.Promises == nil { // the connector's configuration may differ
			st.Promises = Promises(c)
		}
		if asked {
			addGaps(ctx, c, &st)
		}
		addLastWord(ctx, c, &st)
		addLastConfirmed(ctx, c, &st)
	}()
	slots, err := slotmonitor.Look(ctx, wiring.Monitor(c))
	if asked = err == nil; asked {
		con.Waits = withoutSlotWaits(con.Waits) // they are looked up again
	}
	switch {
	case err != nil && cerr == nil:
		err = postgres.QueryFault("postgres", err)
		st = Status{Status: con, Cause: told.Cause, ReplicationSlot: told.ReplicationSlot, Alerts: []FiringAlert{}}
		if !slices.ContainsFunc(con.Waits, func(w fault.Wait) bool { return w.Kind == waitPostgres }) {
			st.OwnConnection = new(unreachable(con.Slot, err))
		}
		return st, source, err
	case err != nil:
		return withSlot(con, nil, err, seen), source, postgres.QueryFault("postgres", err)
	case len(slots) == 0:
		st, err := noSlot(con, whyMissing(ctx, c), seen)
		return st, source, err
	case slots[0].WALStatus == slotmonitor.WALLost:
		st, err := lostSlot(c, con, &slots[0], seen)
		return st, source, err
	}
	return withSlot(con, &slots[0], nil, seen), source, err
}

// askConnector gets /status from the connector that this configuration would run.
func askConnector(ctx context.Context, c *config.Loaded) (Status, string, error) {
	var st Status
	url, err := statusURL(c)
	if err != nil {
		return st, url, err
	}
	_, err = askFor(ctx, url, "a connector", &st, func() bool { return st.State.Name != "" })
	if err != nil {
		return st, url, err
	}
	if st.Slot != c.Postgres.Slot {
		return st, url, fmt.Errorf("the connector at %s reads another slot, %q", url, st.Slot)
	}
	return st, url, nil
}

// statusURL is the address of /status of the connector that this configuration would run.
func statusURL(c *config.Loaded) (string, error) {
	if c.HTTP.Off() {
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

// withoutSlotWaits drops the connector's waits for the slot: its server is about to be asked again.
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
