package publisher

import (
	"log/slog"
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// Options of a Publisher. The configuration is that of cdc-outbox with source: polling; keys that are not set have the
// defaults of docs/configuration.md. Variables are not read.
type Options struct {
	// DSN is postgres.dsn. Empty: Settings or File set it, or the PG* variables do.
	DSN string
	// Brokers is kafka.brokers. Default: 127.0.0.1:9092.
	Brokers []string
	// Tables is postgres.tables. Default: public.outbox.
	Tables []string
	// Topic is router.topic. Default: "${aggregate_type}.events".
	Topic string

	// Settings sets any other key of the configuration, with the value as it would be written in a variable:
	// "kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.password": "@/run/secrets/kafka". It goes before the fields
	// above and before File. Keys of the process around the relay, such as http.listen and monitor.webhook, have no
	// effect.
	Settings map[string]string
	// File is a configuration file, which may be that of the program. Default: none.
	File string

	// Logger gets failures and the reactions to them: names and errors, but no keys and no payloads. Default:
	// slog.Default().
	Logger *slog.Logger
	// Registerer gets the relay's metrics, cdc_outbox_*, while the Publisher is there, until Run ends. If a process has
	// several, give each a label with prometheus.WrapRegistererWith. Default: none.
	Registerer prometheus.Registerer
}

// load reads the configuration. Its error lists all problems.
func (o *Options) load() (*config.Loaded, error) {
	settings := map[string]string{}
	for key, value := range map[string]string{
		"postgres.dsn": o.DSN, "kafka.brokers": strings.Join(o.Brokers, ","),
		"postgres.tables": strings.Join(o.Tables, ","), "router.topic": o.Topic,
	} {
		if value != "" {
			settings[key] = value
		}
	}
	maps.Copy(settings, o.Settings)
	settings["source"] = config.SourcePolling
	return routing.Load(config.Options{File: o.File, Settings: settings})
}

func (o *Options) logger() *zap.Logger {
	l := o.Logger
	if l == nil {
		l = slog.Default()
	}
	return zap.New(&core{handler: l.Handler()})
}
