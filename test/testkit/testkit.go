// Package testkit gives tests real servers with one call. Servers are shared by the tests of a process and stopped by
// Main; what a test creates in them has names of its own, so tests do not meet. The parts live in sub-packages for
// tests that need one only.
package testkit

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// shared are the servers of this test process. Tests that stop, kill or reconfigure a server start their own.
var shared struct {
	sync.Mutex
	postgres map[string]*postgres.Server
	kafka    *kafka.Cluster
	stops    []func() error
}

// Main runs the tests, stops the shared servers and fails on goroutines left behind: func TestMain(m *testing.M) {
// testkit.Main(m) }
func Main(m *testing.M, opts ...goleak.Option) {
	code := m.Run()
	for _, stop := range shared.stops {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: stop a shared server:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := leak.Find(opts...); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// AtEnd has Main call stop after the tests, before it looks for goroutines.
func AtEnd(stop func() error) {
	shared.Lock()
	defer shared.Unlock()
	shared.stops = append(shared.stops, stop)
}

// Database is a database of a test's own on a shared server.
type Database struct {
	*postgres.Server
	Name string // of the database; lower-case letters, digits and underscores
	DSN  string // a URL, superuser postgres
	// Slot, Publication: names that no other test on the server uses; nothing of that name exists yet.
	Slot, Publication string
}

// startsServer leaves the test out under -short, which promises an answer in seconds.
func startsServer(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server; run without -short")
	}
}

// Postgres gives the test an empty database on the shared server of the version (as postgres.Find takes it; default the
// newest installed). The database goes with the test, its replication slots too.
func Postgres(t testing.TB, version ...string) *Database {
	t.Helper()
	startsServer(t)
	server := sharedPostgres(t, strings.Join(version, ""))
	name := Name(t)
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of PostgreSQL's log, which other tests share:\n%s", server.LogTail(30))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := server.DropDatabase(ctx, name); err != nil {
			t.Errorf("testkit: drop the test's database: %v", err)
		}
	})
	return &Database{Server: server, Name: name, DSN: server.DSN(name), Slot: name, Publication: name}
}

// DedicatedPostgres starts a server for this test alone, to be stopped, killed and configured at will.
func DedicatedPostgres(t testing.TB, opts postgres.Options) *Database {
	t.Helper()
	startsServer(t)
	server, err := postgres.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of PostgreSQL's log:\n%s", server.LogTail(30))
		}
		if err := server.Close(); err != nil {
			t.Errorf("testkit: close PostgreSQL: %v", err)
		}
	})
	name := Name(t)
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return &Database{Server: server, Name: name, DSN: server.DSN(name), Slot: name, Publication: name}
}

// Exec runs SQL (several statements are one transaction) in the test's database and fails the test when that fails.
func (d *Database) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := d.Server.Exec(t.Context(), d.Name, sql); err != nil {
		t.Fatalf("testkit: %v", err)
	}
}

func sharedPostgres(t testing.TB, version string) *postgres.Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s := shared.postgres[version]; s != nil {
		return s
	}
	// The server outlives the test that asks first, so it does not get that test's context.
	s, err := postgres.Start(context.Background(), postgres.Options{Version: version})
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	if shared.postgres == nil {
		shared.postgres = map[string]*postgres.Server{}
	}
	shared.postgres[version] = s
	shared.stops = append(shared.stops, s.Close)
	return s
}

var names struct {
	sync.Mutex
	n int
}

// Name makes a name for this test that no other call returns: fit for databases, slots, publications, topics; at most
// 50 characters of [a-z0-9_].
func Name(t testing.TB) string {
	names.Lock()
	names.n++
	n := names.n
	names.Unlock()
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimPrefix(t.Name(), "Test")) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	// It is a slot's name as well, and one with a snapshot has 43 bytes at most, whatever the number at the end.
	short := strings.Trim(b.String()[:min(b.Len(), 26)], "_")
	h := fnv.New32a()
	fmt.Fprint(h, t.Name(), os.Getpid())
	return fmt.Sprintf("t_%s_%08x_%d", short, h.Sum32(), n)
}
