package page

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Every is the time between two samples.
const Every = time.Second

// Config has the sources of the figures. The functions are called from Run's goroutine.
type Config struct {
	Relay func() Relay  // nil: this process relays nothing, as the command monitor
	Slots func() []Slot // required: as of the last sample of the server

	SlotInterval     time.Duration // between two samples of the server
	WarnRetained     int64         // thresholds of the alert about retained WAL
	CriticalRetained int64
	Version          string

	Runbook http.Handler // answers for /runbook/; nil: nothing does
}

// Page serves the page and keeps its history. Its handlers may be used before and after Run.
type Page struct {
	cfg     Config
	started time.Time
	history *history
	mux     *http.ServeMux
}

// New makes a page. Nothing is sampled before Run.
func New(cfg Config) *Page {
	p := &Page{cfg: cfg, started: time.Now()}
	p.history = newHistory(strconv.FormatInt(p.started.UnixMilli(), 36), cfg.Relay != nil)
	p.mux = http.NewServeMux()
	p.mux.HandleFunc("GET /{$}", index)
	p.mux.HandleFunc("GET /assets/{name...}", asset)
	p.mux.HandleFunc("GET /history", p.answer)
	if cfg.Runbook != nil {
		p.mux.Handle("GET /runbook/{$}", guarded(cfg.Runbook))
	}
	return p
}

// ServeHTTP answers for /, /assets/, /history and /runbook/.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Run samples once a second until ctx ends, and returns nil then.
func (p *Page) Run(ctx context.Context) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		p.sample(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *Page) sample(now time.Time) {
	var relay *Relay
	if p.cfg.Relay != nil {
		r := p.cfg.Relay()
		relay = &r
	}
	p.history.add(now, relay, p.cfg.Slots())
}

// answer gives the samples after the given one, or all, with the values that the page needs besides /status to show
// them.
func (p *Page) answer(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("span")
	span, ok := spans[name]
	if !ok {
		http.Error(w, "span is day, month or nothing", http.StatusBadRequest)
		return
	}
	head, err := json.Marshal(map[string]any{
		"version": p.cfg.Version, "started": p.started.UTC(), "now": time.Now().UnixMilli(),
		"every_ms": span.step.Milliseconds(), "keeps_ms": span.keeps.Milliseconds(),
		"slots_every_ms":      max(span.step, p.cfg.SlotInterval).Milliseconds(),
		"warn_retained_bytes": p.cfg.WarnRetained, "critical_retained_bytes": p.cfg.CriticalRetained,
	})
	if err != nil {
		http.Error(w, "the history cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	body := append(head[:len(head)-1], ',') // the object goes on
	body = append(p.history.appendJSON(body, name, r.URL.Query().Get("since")), '}', '\n')
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(fault.Escaped(body)) // an error means that the reader went away
}

// appendString writes a JSON string. Strings always can be.
func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s)
	return append(b, text...)
}
