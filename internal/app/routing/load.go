package routing

import (
	"errors"
	"maps"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/debezium"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
)

// Load reads the configuration with the checks that only other packages know, and the checks of o.
func Load(o config.Options) (*config.Loaded, error) {
	checks := map[string]func(string) error{
		"postgres.dsn":                postgres.CheckDSN,
		"postgres.primary_dsn":        postgres.CheckDSN,
		"postgres.tables":             checkTable,
		"postgres.publication":        identifier.Check,
		"postgres.checkpoint":         checkTable,
		"postgres.decisions":          checkTable,
		"router.topic":                checkTemplate,
		"router.debezium.additional":  debezium.CheckPlacement,
		"router.debezium.topic_regex": debezium.CheckPattern,
		"router.dead_letter_topic":    router.CheckTopic,
	}
	maps.Copy(checks, o.Checks)
	o.Checks = checks
	o.Whole = func(c *config.Loaded) error {
		_, err := New(c, nil)
		return err
	}
	return config.Load(o)
}

func checkTable(name string) error {
	_, err := identifier.ParseTable(name)
	return err
}

func checkTemplate(template string) error {
	_, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: template})
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Err
	}
	return err
}
