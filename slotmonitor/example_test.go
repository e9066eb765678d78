package slotmonitor_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// The monitor watches one slot every ten seconds. It logs each alert that begins, changes or ends, and exports metrics.
func ExampleNew() {
	logger, err := zap.NewProduction()
	if err != nil {
		log.Fatal(err)
	}
	monitor, err := slotmonitor.New(slotmonitor.Config{
		DSN:        func() (string, error) { return os.Getenv("MONITOR_DSN"), nil },
		Interval:   10 * time.Second,
		Only:       []string{"cdc_outbox"},
		Logger:     logger,
		Registerer: prometheus.DefaultRegisterer,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := monitor.Run(ctx); err != nil { // until the interrupt
		log.Fatal(err)
	}
	for _, slot := range monitor.Latest() {
		log.Printf("%s retains %d bytes of WAL (%s)", slot.Name, slot.RetainedBytes, slot.Level)
	}
}
