package docs

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
)

// remedyLine is a line that changes a setting or a right: on a service's page it must be one that the code prints.
var remedyLine = regexp.MustCompile(`^(aws rds modify-db-(cluster-)?parameter-group|` +
	`gcloud .* --database-flags|az postgres flexible-server |supabase .*postgres-config|neon roles|` +
	`GRANT rds_|ALTER (ROLE|USER|SYSTEM))`)

// kafkaPages are about services for Kafka, whose settings check does not know.
var kafkaPages = []string{"amazon-msk", "confluent-cloud", "redpanda", "aiven", "azure-event-hubs"}

// yamlBlock is a listing of a configuration.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestKafkaPages: each says what was not tried and which sources it has, and its configurations are accepted.
func TestKafkaPages(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s"), 0o600))
	files := regexp.MustCompile(`"@[^"]*"`)
	for _, name := range append(slices.Clone(kafkaPages), "../authentication") {
		b, err := os.ReadFile("clouds/" + name + ".md")
		require.NoError(t, err)
		text := string(b)
		if !strings.HasPrefix(name, "..") {
			require.Contains(t, text, "**Not tested on the service**", name)
			require.Contains(t, text, "\n## Sources\n", name)
			require.Contains(t, text, "## Idempotence, transactions, topics", name)
		}
		blocks := yamlBlock.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, blocks, name)
		for _, block := range blocks {
			if !strings.HasPrefix(block[1], "kafka:") && !strings.HasPrefix(block[1], "postgres:") {
				continue // a part of one
			}
			path := filepath.Join(t.TempDir(), "c.yaml")
			yaml := files.ReplaceAllString(block[1], `"@`+secret+`"`)
			yaml = strings.ReplaceAll(yaml, "/etc/kafka/ca.pem", certificate(t))
			require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
			_, err := config.Load(config.Options{Environ: []string{"CDC_OUTBOX_CONFIG=" + path}})
			require.NoError(t, err, "%s: %s", name, block[1])
		}
	}
}

// certificate is the name of a file with one.
func certificate(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// TestCloudPagesSayWhatCheckPrints, word for word, so that neither drifts.
func TestCloudPagesSayWhatCheckPrints(t *testing.T) {
	printed := map[string][]string{}
	for _, s := range cloud.Services() {
		for _, remedy := range cloud.Remedies(s, "cdc_outbox") {
			printed[s.Page()] = append(printed[s.Page()], remedy.Commands...)
		}
	}
	paths, err := filepath.Glob("clouds/*.md")
	require.NoError(t, err)
	require.Len(t, paths, len(printed)+len(kafkaPages), "a page for each, and nothing else")
	for page, lines := range printed {
		b, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		text := strings.Split(string(b), "\n")
		for _, line := range lines {
			require.Contains(t, text, line, page)
		}
		for _, line := range text {
			if remedyLine.MatchString(line) {
				require.True(t, slices.Contains(lines, line), "%s has a command that check does not print: %s", page,
					line)
			}
		}
	}
}
