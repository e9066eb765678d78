package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// The values of source.
const (
	SourceWAL     = "wal"
	SourcePolling = "polling"
)

// onlyWAL are the keys that have no meaning without a replication slot.
var onlyWAL = []string{
	"on_gap",
	"postgres.slot", "postgres.publication", "postgres.messages", "postgres.on_change",
	"postgres.setup", "postgres.snapshot", "postgres.failover", "postgres.hot_standby", "postgres.primary_dsn",
	"postgres.wait_for_standbys", "postgres.wait_for_standbys_count",
	"monitor.warn_retained", "monitor.critical_retained", "monitor.wal_volume",
}

// reads reports whether a key has an effect with this source, this sink and this preset.
func (c *Config) reads(key string) bool { return c.ofOther(key) == "" && c.Router.reads(key) }

// ofOther says why a key has no effect with this source and this sink; empty: it has one.
func (c *Config) ofOther(key string) string { return cmp.Or(c.ofOtherSource(key), c.ofOtherSink(key)) }

// ofOtherSource says why a key has no effect with this source; empty: it has one.
func (c *Config) ofOtherSource(key string) string {
	polls := c.Source == SourcePolling
	switch {
	case !polls && strings.HasPrefix(key, "polling."):
		return "has no effect while source is wal; set source to polling, or remove the key"
	case polls && slices.Contains(onlyWAL, key):
		return "belongs to source: wal, and source is polling; remove the key"
	case polls && strings.HasPrefix(key, "traces."):
		return "has no effect with source: polling, which creates no spans; remove the key"
	}
	return ""
}

// others refuses keys of another source or sink, because an operator who sets one expects an effect.
func (l *loader) others(c *Config) {
	for _, f := range fields() {
		if why := c.ofOther(f.Key); why != "" && changed(f, c) {
			l.fail(f.Key, "", "%s", why)
		}
	}
}

// source refuses whatever a table that is polled cannot give.
func (l *loader) source(c *Config) {
	if c.Source != SourcePolling {
		return
	}
	if c.Delivery == deliveryExactlyOnce {
		l.fail("delivery", "at_least_once",
			"is not possible with source: polling: the column that marks published rows "+
				"is in Postgres, and a Kafka transaction cannot include it; consumers detect a repeated "+
				"event by its id")
	}
	if c.Router.Preset == PresetDebezium && c.Router.Debezium.PositionHeader && c.Source == SourcePolling {
		l.fail("router.debezium.position_header", "",
			"has no effect with source: polling: a table does not contain the position of a row in the log")
	}
	if len(c.Postgres.OutboxTables()) == 0 {
		l.fail("postgres.tables", "schema.table, one or more", "names no table")
	}
	p := &c.Polling
	for _, n := range []struct {
		key             string
		value, from, to int64
		allowed         string
	}{
		{"polling.workers", int64(p.Workers), 1, 64, "1 to 64"},
		{"polling.batch", int64(p.Batch), 1, 100_000, "1 to 100000"},
		{"polling.interval", int64(p.Interval), int64(5 * time.Millisecond), int64(time.Minute), "5ms to 1m"},
		{
			"polling.warn_backlog", int64(p.WarnBacklog), int64(time.Second), int64(p.CriticalBacklog) - 1,
			"from 1s, below polling.critical_backlog",
		},
	} {
		if n.value < n.from || n.value > n.to {
			l.fail(n.key, n.allowed, "is out of range")
		}
	}
	if p.Columns.Sequence == "" || p.Columns.PublishedAt == "" || p.Columns.Sequence == p.Columns.PublishedAt {
		l.fail("polling.columns.published_at", "", "polling.columns must name two different columns")
	}
}

// changed reports whether the value differs from the default. A default that is written down, as in the output of the
// command config, is not a change.
func changed(f Field, c *Config) bool {
	value := func(c *Config) any { return reflect.ValueOf(c).Elem().FieldByIndex(f.index).Interface() }
	return !reflect.DeepEqual(value(c), value(plain()))
}

// plain returns the configuration in which nothing is set.
var plain = sync.OnceValue(func() *Config {
	l, c := &loader{given: layer{}}, &Config{}
	for _, f := range fields() {
		l.decode(f, given{Text: f.Default}, reflect.ValueOf(c).Elem().FieldByIndex(f.index))
	}
	return c
})
