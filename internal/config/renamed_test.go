package config

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRenamed(t *testing.T) {
	byKey := fieldBy(func(f Field) string { return f.Key })
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	for old, now := range renamed {
		require.NotContains(t, byKey, old)
		require.Contains(t, byKey, now, "the new name of %s", old)
		require.Contains(t, string(changelog), "| `"+old+"` | `"+now+"` |", "CHANGELOG.md")
	}

	t.Run("file", func(t *testing.T) {
		_, err := load(t, "postgres:\n  memory: "+canary+"\n  standby: true\nmonitor.repeat: 1h\n", nil)
		require.Len(t, problems(t, err), 3)
		require.Regexp(t, `postgres\.memory \(\S+cdc\.yaml:2\): was renamed to postgres\.checkpoint; use the new name`,
			err.Error())
		require.Regexp(t, `postgres\.standby \(\S+cdc\.yaml:3\): was renamed to postgres\.hot_standby`, err.Error())
		require.Regexp(t, `monitor\.repeat \(\S+cdc\.yaml:4\): was renamed to monitor\.repeat_interval`, err.Error())
		require.NotContains(t, err.Error(), canary)
	})
	t.Run("environment", func(t *testing.T) {
		_, err := load(t, "", []string{
			"CDC_OUTBOX_POSTGRES_MEMORY=off", "CDC_OUTBOX_POLLING_AFTER=delete", "CDC_OUTBOX_LOG_LEVEL=x",
		})
		require.Len(t, problems(t, err), 3, "it is reported with all other problems")
		for old, now := range map[string]string{
			"POSTGRES_MEMORY": "POSTGRES_CHECKPOINT", "POLLING_AFTER": "POLLING_ON_PUBLISHED",
		} {
			require.ErrorContains(t, err, EnvPrefix+old+" (environment): was renamed to "+EnvPrefix+now)
		}
	})
	t.Run("flag", func(t *testing.T) {
		require.Equal(t, "postgres-hot-standby", RenamedFlag("postgres-standby"))
		require.Empty(t, RenamedFlag("postgres-hot-standby"))
	})
	t.Run("variable with the name of a file", func(t *testing.T) {
		require.Equal(t, "CDC_OUTBOX_POSTGRES_CHECKPOINT_FILE", renamedVariable("CDC_OUTBOX_POSTGRES_MEMORY_FILE"))
		require.Empty(t, renamedVariable("CDC_OUTBOX_POSTGRES_CHECKPOINT_FILE"))
	})
}
