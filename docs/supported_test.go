package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const supportedHead = "# Supported versions\n\n" +
	"This page is printed from what the tests run: `make docs`. A version that is not here may work, but no test " +
	"says so.\nThere is no release yet, so all of it is about the branch `main`.\n\n" +
	"A version is supported at least until its own project ends it. After that it stays as long as the tests run it. " +
	"When one\nis dropped, the minor version of cdc-outbox rises, and the changelog has a line about it.\n"

// ends are the dates of https://www.postgresql.org/support/versioning/.
var ends = map[string]string{
	"14": "2026-11-12", "15": "2027-11-11", "16": "2028-11-09", "17": "2029-11-08", "18": "2030-11-14",
}

// first is the first group of a pattern in a file of the repository.
func first(t *testing.T, path, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	m := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	require.NotNil(t, m, "%s has no %s", path, pattern)
	return m[1]
}

// TestSupported prints docs/supported.md.
func TestSupported(t *testing.T) {
	var b strings.Builder
	b.WriteString(supportedHead)
	writePostgresVersions(t, &b)
	writeBrokerVersions(t, &b)
	writeServices(t, &b)
	writePlatforms(t, &b)
	if *update {
		require.NoError(t, os.WriteFile("supported.md", []byte(b.String()), 0o600))
	}
	text, err := os.ReadFile("supported.md")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "make docs prints supported.md")
}

func writePostgresVersions(t *testing.T, b *strings.Builder) {
	t.Helper()
	versions := strings.Fields(first(t, "Makefile", `(?m)^PG_VERSIONS := (.*)$`))
	require.Contains(t, first(t, "internal/postgres/setup/checks.go", `s\.Version < (\d+)`), versions[0], "the oldest")
	b.WriteString("\n## PostgreSQL\n\n| version | its project ends it | tried |\n|---|---|---|\n")
	usual := first(t, "Makefile", `(?m)^PG_TESTS_(\d+) :=`) // the version of `make test` where CI runs
	for _, v := range versions {
		require.NotEmpty(t, ends[v], "the end of PostgreSQL %s", v)
		how := "`make test-versions`: decoding, setup, rights, slots, checkpoint, standbys; `make matrix`: " +
			"everything that needs Postgres, and crashes"
		if v == usual {
			how = "`make test`, `make e2e`, with this version installed: everything"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", v, ends[v], how)
	}
	b.WriteString("\n`check` refuses older servers. Versions 16 and later can decode on a standby, and from 17 on " +
		"a slot can follow a\nfailover: [deploy.md](deploy.md#failover-and-upgrades-of-postgres).\n")
}

func writeBrokerVersions(t *testing.T, b *strings.Builder) {
	t.Helper()
	jars, err := os.ReadFile(filepath.Join(root, "test/testkit/kafka/jars.go"))
	require.NoError(t, err)
	var releases []string
	for _, m := range regexp.MustCompile(`"(\d+\.\d+\.\d+)"`).FindAllStringSubmatch(string(jars), -1) {
		releases = append(releases, m[1])
	}
	slices.Sort(releases)
	releases = slices.Compact(releases)
	slices.Reverse(releases)
	how := map[string]string{ // see jars.go, and what names its versions
		"4.1.0": "`make e2e`, `make real`, `make interop`: everything",
		"3.9.1": "`make e2e`: three brokers, one killed; `make real`; all of it with `make soak KAFKA=3.9`",
		"2.8.2": "all of it with `make soak KAFKA=2.8`, with ZooKeeper; `make interop KAFKA=2.8`",
	}
	b.WriteString("\n## Kafka\n\n| version | tried |\n|---|---|\n")
	for _, r := range releases {
		require.NotEmpty(t, how[r], "how Kafka %s is tried", r)
		fmt.Fprintf(b, "| %s | %s |\n", r, how[r])
	}
	fmt.Fprintf(b, "\nVersions between them speak the same requests. Exactly once needs Kafka 2.5 or later.\n"+
		"\n## NATS\n\nJetStream of NATS 2.10 or later. The tests run version %s in their own process, and the client "+
		"is version %s.\n", first(t, "test/go.mod", `nats-server/v2 v(\S+)`), first(t, "go.mod", `nats\.go v(\S+)`))
	fmt.Fprintf(b, "\n## RabbitMQ\n\nRabbitMQ 3.10 or later. The tests run Debian's package `rabbitmq-server`, in "+
		"Debian 12 version 3.10.8, and the client\nis version %s. RabbitMQ 4 was not tried.\n",
		first(t, "go.mod", `amqp091-go v(\S+)`))
}

// writeServices lists the services with a page, and whether one was tried there.
func writeServices(t *testing.T, b *strings.Builder) {
	t.Helper()
	b.WriteString("\n## Managed services\n\n| service | tried on the service |\n|---|---|\n")
	files, err := filepath.Glob("clouds/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		tried := "yes"
		if strings.Contains(string(text), "**Not tested on the service**") {
			tried = "no; the page is from the vendor's documentation"
		}
		fmt.Fprintf(b, "| [%s](%s) | %s |\n", title, filepath.ToSlash(file), tried)
	}
}

func writePlatforms(t *testing.T, b *strings.Builder) {
	t.Helper()
	b.WriteString("\n## Platforms\n\n| platform | tried |\n|---|---|\n")
	for _, p := range strings.Split(first(t, ".goreleaser.yaml", `(?m)^ +targets: \[(.*)\]$`), ", ") {
		name, how := strings.Replace(p, "_", "/", 1), "built by `make cross`"
		if name == "linux/amd64" {
			how = "all tests"
		} else {
			require.Contains(t, first(t, "Makefile", `for p in (.*/.*); do echo`), name)
		}
		fmt.Fprintf(b, "| %s | %s |\n", name, how)
	}
	fmt.Fprintf(b, "\nTo build it takes Go %s or later; applications that link `outbox`, `inbox` or `publisher` "+
		"as well.\n",
		first(t, "go.mod", `(?m)^go (\d+\.\d+)`))
}
