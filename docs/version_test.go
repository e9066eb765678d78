package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersionIsOneTruth: the version in preparation is the first heading of CHANGELOG.md. Each module, the workspace,
// the image, the manifests, the chart and README.md name no other.
func TestVersionIsOneTruth(t *testing.T) {
	version := first(t, "CHANGELOG.md", `(?m)^## \[(\d+\.\d+\.\d+)\]`)
	named := regexp.MustCompile(`cdc-outbox/(?:outbox|inbox|examples|cdc-outbox)[a-z/-]*[@: ]v?(\d+\.\d+\.\d+)`)
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || path != root && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.Name() != "go.mod" && d.Name() != "go.work" && d.Name() != "Dockerfile" && d.Name() != "README.md" &&
			filepath.Ext(path) != ".yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			require.Equal(t, version, m[1], "%s: %s", path, m[0])
			seen++
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, seen, 20)
	require.Equal(t, version, first(t, "deploy/helm/cdc-outbox/Chart.yaml", `(?m)^version: (.*)$`))
	require.Equal(t, version, first(t, "deploy/helm/cdc-outbox/Chart.yaml", `(?m)^appVersion: "(.*)"$`))
}
