package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/cloud"
)

// remedyLine is a line that changes a setting or a right: on a service's page it must be one that the code prints.
var remedyLine = regexp.MustCompile(`^(aws rds modify-db-(cluster-)?parameter-group|` +
	`gcloud .* --database-flags|az postgres flexible-server |supabase .*postgres-config|neon roles|` +
	`GRANT rds_|ALTER (ROLE|USER|SYSTEM))`)

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
	require.Len(t, paths, len(printed), "a page for each, and nothing else")
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
