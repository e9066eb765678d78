package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

// passExactlyOnce waits for the connector's own count: the log also holds the markers of its transactions, so offsets
// do not tell when all records are there, and a record counts only once its transaction is committed. The connector is
// asked from when the offsets show that it is about to end: its answers would cost CPU time that other passes do not
// have, and memory.
func passExactlyOnce(ctx context.Context, t turn) (result, error) { return t.passCounted(ctx, binary) }

func (t turn) passCounted(ctx context.Context, path string) (result, error) {
	n, err := port.Free()
	if err != nil {
		return result{}, err
	}
	address := "127.0.0.1:" + strconv.Itoa(n)
	cmd := ourCommand(t.bed, t.slot, t.prefix, exactlyOnce, "CDC_OUTBOX_HTTP_LISTEN="+address)
	cmd.Path = path
	return t.passConnector(ctx, cmd, func(p *process) error {
		if err := t.bed.awaitRecords(ctx, p, t.topics()); err != nil {
			return err
		}
		return awaitPublished(ctx, p, address, t.bed.rows)
	})
}

func awaitPublished(ctx context.Context, p *process, address string, rows int) error {
	for {
		if published(ctx, address) >= rows {
			return nil
		}
		select {
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("%w; the end of its output:\n%s", ctx.Err(), p.output)
		case <-p.Done():
			return fmt.Errorf("it ended before all was there; the end of its output:\n%s", p.output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// published is 0 while the connector does not answer.
func published(ctx context.Context, address string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var status struct {
		Counts struct {
			Published int `json:"published"`
		} `json:"counts"`
	}
	if json.NewDecoder(res.Body).Decode(&status) != nil {
		return 0
	}
	return status.Counts.Published
}
