package testkit

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// Versions chooses among the major versions, oldest first, that a test is about: the newest, or the version that
// $CDC_OUTBOX_TEST_PG_VERSION names. Each further version is one more server to start, so they have runs of their own.
func Versions(t testing.TB, majors ...string) []string {
	t.Helper()
	wanted := os.Getenv(postgres.EnvVersion)
	if wanted == "" {
		return majors[len(majors)-1:]
	}
	major, _, _ := strings.Cut(wanted, ".")
	if !slices.Contains(majors, major) {
		t.Skipf("it is about PostgreSQL %s", strings.Join(majors, ", "))
	}
	return []string{major}
}
