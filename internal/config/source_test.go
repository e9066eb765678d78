package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSource(t *testing.T) {
	for name, tc := range map[string]struct {
		environ []string
		want    string // contained in the error; empty: none
	}{
		"polling":                      {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POLLING_WORKERS=8", "CDC_OUTBOX_POLLING_COLUMNS_SEQUENCE=n"}, ""},
		"polling without the source":   {[]string{"CDC_OUTBOX_POLLING_WORKERS=8"}, "polling.workers = \"8\" (CDC_OUTBOX_POLLING_WORKERS): has no effect while source is wal"},
		"a default is no mistake":      {[]string{"CDC_OUTBOX_POLLING_WORKERS=4"}, ""},
		"slot":                         {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_SLOT=mine"}, "postgres.slot"},
		"publication":                  {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_PUBLICATION=mine"}, "postgres.publication"},
		"failover":                     {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_FAILOVER=true"}, "postgres.failover"},
		"snapshot":                     {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_SNAPSHOT=initial"}, "postgres.snapshot"},
		"checkpoint":                   {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_CHECKPOINT=off"}, "postgres.checkpoint"},
		"hot standby":                  {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_HOT_STANDBY=true", "CDC_OUTBOX_POSTGRES_PRIMARY_DSN=host=p"}, "postgres.hot_standby"},
		"traces":                       {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_TRACES_ENDPOINT=http://c:4318"}, "creates no spans"},
		"messages":                     {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_MESSAGES=m"}, "postgres.messages"},
		"exactly once":                 {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_DELIVERY=exactly_once"}, "a Kafka transaction cannot include it"},
		"no table":                     {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_TABLES=off"}, "postgres.tables"},
		"no workers":                   {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POLLING_WORKERS=0"}, "1 to 64"},
		"one column for two things":    {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POLLING_COLUMNS_SEQUENCE=published_at"}, "two different columns"},
		"backlog warns after critical": {[]string{"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POLLING_WARN_BACKLOG=1h"}, "below polling.critical_backlog"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "", tc.environ)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// What the command config prints is a configuration, whatever the source.
func TestSource_printed_is_read_again(t *testing.T) {
	for _, source := range []string{SourceWAL, SourcePolling} {
		c, err := load(t, "", []string{"CDC_OUTBOX_SOURCE=" + source})
		require.NoError(t, err)
		text, err := c.YAML(false)
		require.NoError(t, err)
		require.Contains(t, strings.ReplaceAll(string(text), "'", ""), "source: "+source)
		_, err = load(t, string(text), nil)
		require.NoError(t, err)
	}
}
