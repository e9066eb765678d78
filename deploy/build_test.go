package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	makeTags   = regexp.MustCompile(`(?m)^TAGS := (\S+)$`)
	dockerTags = regexp.MustCompile(` -tags (\S+)`)
	builds     = regexp.MustCompile(`(?m)^.*\$\(GO\) build .*\./cmd/cdc-outbox\b.*$`)
	linked     = regexp.MustCompile(`-X (\S+?)=`)
)

// TestBuildsAgree: the Makefile, the image and the release build one program: with the same build tags, the same
// variables set by the linker, and no path of the machine in it. Only the Makefile's build is looked into (make links).
func TestBuildsAgree(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		return string(text)
	}
	makefile, dockerfile := read("Makefile"), read("deploy/Dockerfile")
	var release struct {
		Builds []struct{ Env, Flags, Tags, Ldflags []string }
	}
	readYAML(t, filepath.Join(root, ".goreleaser.yaml"), &release)
	require.Len(t, release.Builds, 1)
	b := release.Builds[0]

	require.Regexp(t, makeTags, makefile)
	tags := makeTags.FindStringSubmatch(makefile)[1]
	require.Equal(t, tags, strings.Join(b.Tags, ","), ".goreleaser.yaml")
	require.Regexp(t, dockerTags, dockerfile)
	require.Equal(t, tags, dockerTags.FindStringSubmatch(dockerfile)[1], "deploy/Dockerfile")
	made := builds.FindAllString(makefile, -1)
	require.NotEmpty(t, made)
	for _, line := range made {
		require.Contains(t, line, " -trimpath ")
		require.Contains(t, line, " -tags $(TAGS) ", "Makefile")
		require.Contains(t, line, "CGO_ENABLED=0 ")
	}
	require.Contains(t, dockerfile, " -trimpath ")
	require.Contains(t, dockerfile, "CGO_ENABLED=0 ")
	require.Equal(t, []string{"-trimpath"}, b.Flags)
	require.Equal(t, []string{"CGO_ENABLED=0"}, b.Env)

	set := func(text string) (names []string) {
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	want := set(makefile)
	require.Len(t, want, 2)
	require.Equal(t, want, set(dockerfile), "deploy/Dockerfile")
	require.Equal(t, want, set(strings.Join(b.Ldflags, " ")), ".goreleaser.yaml")
}
