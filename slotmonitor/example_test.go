package slotmonitor_test

import (
	"context"
	"log"
	"time"

	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// The monitor watches one slot every ten seconds and reports alerts that begin, change or end.
func ExampleNew() {
	monitor, err := slotmonitor.New(slotmonitor.Config{
		DSN:        func() (string, error) { return "postgres://monitor@127.0.0.1/postgres", nil },
		Interval:   10 * time.Second,
		Only:       []string{"cdc_outbox"},
		Thresholds: slotmonitor.DefaultThresholds,
		Notify: func(e slotmonitor.Event) {
			log.Printf("%s %s (%s): %s", e.Alert, e.State, e.Level, e.Sentence)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := monitor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for _, slot := range monitor.Latest() {
		log.Printf("%s retains %d bytes of WAL", slot.Name, slot.RetainedBytes)
	}
}
