package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/teststorage"
)

// later has data after some minutes only: it is a rate over fifteen.
const later = `cdc_outbox_slot_growth_15m_bytes_per_second{instance=~"$instance"}`

const between = 5 * time.Second // two scrapes of scrapes/

// TestPanelsHaveData asks Prometheus's engine for each panel, over what a running connector and a running consumer have
// shown (scrapes/, made by `make scrapes`): a panel whose names or labels are wrong would be empty.
func TestPanelsHaveData(t *testing.T) {
	db := teststorage.New(t)
	defer db.Close()
	start := time.Unix(1_700_000_000, 0)
	last := start
	for i := 0; ; i++ {
		at := start.Add(time.Duration(i) * between)
		err := scrape(db, fmt.Sprintf("connector-%d.prom", i), at, "connector:9464", "cdc-outbox")
		if errors.Is(err, os.ErrNotExist) && i > 3 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := scrape(db, fmt.Sprintf("consumer-%d.prom", i), at, "billing:8080", "billing"); err != nil {
			t.Fatal(err)
		}
		last = at
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true,
	})
	defer engine.Close()
	asked := 0
	for f, b := range dashboards(t) {
		for _, p := range panels(t, b) {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s, panel %s asks for nothing", f, p.Title)
			}
			for _, target := range p.Targets {
				asked++
				q, err := engine.NewInstantQuery(t.Context(), db, nil, filled(target.Expr), last)
				if err != nil {
					t.Fatalf("%s, panel %s: %v", f, p.Title, err)
				}
				result := q.Exec(t.Context())
				vector, err := result.Vector()
				if err != nil {
					t.Fatalf("%s, panel %s: %v", f, p.Title, err)
				}
				numbers := 0
				for _, s := range vector {
					if !math.IsNaN(s.F) {
						numbers++
					}
				}
				if numbers == 0 && target.Expr != later {
					t.Errorf("%s, panel %s has no data: %s", f, p.Title, target.Expr)
				}
				q.Close()
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d expressions were asked", asked)
	}
}

// TestTimeLeftIsTheSooner: a disk may be full before the slot reaches a limit that is larger than the disk. Series with
// the same labels are one to the operator "or".
//
// Bug (monitor): Of the times to the limit and to a full disk, the dashboard, the page and CDCOutboxSlotRunsOut could
// show the later. Cost: hours shown where minutes were left. Also: `TestFiring` in `deploy/testdata/rules`;
// `TestRoomIsTheSooner` in `internal/watch/page`.
func TestTimeLeftIsTheSooner(t *testing.T) {
	expr := ""
	for _, b := range dashboards(t) {
		for _, p := range panels(t, b) {
			if p.Title == "Time left" {
				expr = filled(p.Targets[0].Expr)
			}
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	defer engine.Close()
	at := time.Unix(1_700_000_000, 0)
	for _, c := range []struct{ limit, full float64 }{{36000, 600}, {600, 36000}} {
		db := teststorage.New(t)
		app := db.Appender(context.Background())
		for name, v := range map[string]float64{"limit": c.limit, "full": c.full} {
			l := labels.FromStrings(labels.MetricName, "cdc_outbox_slot_seconds_to_"+name, "instance", "connector:9464",
				"job", "cdc-outbox", "slot", "s")
			if _, err := app.Append(0, l, at.UnixMilli(), v); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
		q, err := engine.NewInstantQuery(t.Context(), db, nil, expr, at)
		if err != nil {
			t.Fatal(err)
		}
		vector, err := q.Exec(t.Context()).Vector()
		if err != nil || len(vector) != 1 || vector[0].F != 600 {
			t.Errorf("%+v: %v, %v", c, vector, err)
		}
		q.Close()
		_ = db.Close() // it was only read
	}
}

// scrape stores a recorded answer of /metrics, as Prometheus would at that time.
func scrape(db *teststorage.TestStorage, name string, at time.Time, instance, job string) error {
	b, err := os.ReadFile(filepath.Join("scrapes", name))
	if err != nil {
		return err
	}
	app := db.Appender(context.Background())
	add := func(l labels.Labels, v float64) error {
		_, err := app.Append(0, labels.NewBuilder(l).Set("instance", instance).Set("job", job).Labels(),
			at.UnixMilli(), v)
		return err
	}
	if err := add(labels.FromStrings(labels.MetricName, "up"), 1); err != nil {
		return err
	}
	parser := textparse.NewPromParser(b, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return app.Commit()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		parser.Labels(&l)
		_, _, v := parser.Series()
		if err := add(l, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}
