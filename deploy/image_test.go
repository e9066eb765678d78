package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImageBuilds runs the instructions of the Dockerfile's build stage in a directory that holds only what
// .dockerignore lets through. Two commands differ: nothing is downloaded, and `go list -deps` takes the place of `go
// build`; it finds every package, module and embedded file that the build needs.
func TestImageBuilds(t *testing.T) {
	image := t.TempDir()
	b := build{t: t, root: image, env: os.Environ(), files: contextFiles(t)}
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for _, instruction := range instructions(string(text)) {
		b.run(instruction)
	}
	require.True(t, b.built, "the build stage has no go build")
}

// instructions returns the instructions of the first stage after its FROM.
func instructions(dockerfile string) (lines []string) {
	joined := strings.ReplaceAll(dockerfile, "\\\n", " ")
	for _, line := range strings.Split(joined, "\n") {
		name, _, _ := strings.Cut(line, " ")
		switch {
		case name == "" || strings.HasPrefix(name, "#"):
		case name == "FROM" && lines != nil:
			return lines[1:]
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

// build is the state of a build stage whose file system is the directory root.
type build struct {
	t     *testing.T
	root  string
	dir   string // set by WORKDIR
	env   []string
	files []string // of the build context
	built bool
}

var (
	absolute = regexp.MustCompile(`(^|[ =])/`)
	goBuild  = regexp.MustCompile(`go build .*( \./\S+)$`)
	mount    = regexp.MustCompile(`--mount=\S+\s+`) // a cache changes only how long it takes
)

func (b *build) run(instruction string) {
	b.t.Helper()
	name, rest, _ := strings.Cut(instruction, " ")
	inImage := absolute.ReplaceAllString(mount.ReplaceAllString(rest, ""), "${1}"+b.root+"/")
	switch name {
	case "WORKDIR":
		b.dir = inImage
		require.NoError(b.t, os.MkdirAll(b.dir, 0o755))
	case "ENV":
		b.env = append(b.env, inImage)
	case "ARG":
	case "COPY":
		b.copy(strings.Fields(rest))
	case "RUN":
		b.built = b.built || goBuild.MatchString(inImage)
		inImage = goBuild.ReplaceAllString(inImage, "go list -deps$1 >/dev/null")
		cmd := exec.Command("sh", "-ec", strings.ReplaceAll(inImage, "go mod download", ":"))
		cmd.Dir, cmd.Env = b.dir, b.env
		out, err := cmd.CombinedOutput()
		require.NoError(b.t, err, "%s\n%s", instruction, out)
	default:
		b.t.Fatalf("this test cannot run %q", instruction)
	}
}

// copy copies the files of the build context that the sources name. A source is a file or ".".
func (b *build) copy(args []string) {
	b.t.Helper()
	sources, target := args[:len(args)-1], filepath.Join(b.dir, args[len(args)-1])
	for _, source := range sources {
		files := []string{source}
		if source == "." {
			files = b.files
		}
		for _, file := range files {
			require.True(b.t, slices.Contains(b.files, file), ".dockerignore keeps %s out of the build context", file)
			to := filepath.Join(target, filepath.Base(file))
			if source == "." {
				to = filepath.Join(target, file)
			}
			content, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(b.t, err)
			require.NoError(b.t, os.MkdirAll(filepath.Dir(to), 0o755))
			require.NoError(b.t, os.WriteFile(to, content, 0o644))
		}
	}
}

// contextFiles lists the files of the repository that .dockerignore lets through, relative to the repository.
func contextFiles(t *testing.T) (files []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	var rules []rule
	for _, line := range strings.Split(string(text), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			rules = append(rules, newRule(line))
		}
	}
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "testdata"}, path):
			return fs.SkipDir // large, and ignored
		case d.Type().IsRegular() && !ignored(rules, path):
			files = append(files, path)
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

// rule is one line of .dockerignore. It matches a path and everything below it.
type rule struct {
	pattern *regexp.Regexp
	keep    bool // the line begins with "!"
}

var wildcards = strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*`, `[^/]*`)

func newRule(line string) rule {
	pattern, keep := strings.CutPrefix(line, "!")
	return rule{regexp.MustCompile("^" + wildcards.Replace(regexp.QuoteMeta(pattern)) + "(/.*)?$"), keep}
}

// ignored reports whether a path is kept out: the last rule that matches decides.
func ignored(rules []rule, path string) (out bool) {
	for _, r := range rules {
		if r.pattern.MatchString(path) {
			out = !r.keep
		}
	}
	return out
}
