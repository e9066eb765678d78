package testkit

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// Versions chooses among the major versions that a test is about: the version that $CDC_OUTBOX_TEST_PG_VERSION names,
// otherwise the machine's default. The test is left out if it is about others: each further version is one more
// server to start, so they have runs of their own (make test-versions).
func Versions(t testing.TB, majors ...string) []string {
	t.Helper()
	startsServer(t)
	wanted := os.Getenv(postgres.EnvVersion)
	if wanted == "" {
		bin, err := postgres.Find("")
		if err != nil {
			t.Fatalf("testkit: %v", err)
		}
		wanted = strconv.Itoa(bin.Major())
	}
	major, _, _ := strings.Cut(wanted, ".")
	if !slices.Contains(majors, major) {
		t.Skipf("it is about PostgreSQL %s: make test-versions", strings.Join(majors, ", "))
	}
	return []string{major}
}
