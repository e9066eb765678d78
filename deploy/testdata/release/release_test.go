package release

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goreleaser is the version whose schema the configuration is compared with. The go command verifies what it downloads.
// The program is not built: that takes longer than all other steps of this kind together.
const goreleaser = "github.com/goreleaser/goreleaser/v2@v2.13.3"

func TestGoreleaser(t *testing.T) {
	out, err := exec.Command("go", "mod", "download", "-json", goreleaser).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	schema, err := compiler.Compile(filepath.Join(module.Dir, "www/docs/static/schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, ".goreleaser.yaml")
	if err := schema.Validate(tree(t, text)); err != nil {
		t.Error(err)
	}
	wrong := bytes.Replace(text, []byte("\nnfpms:"), []byte("\nnfpmss:"), 1)
	if err := schema.Validate(tree(t, wrong)); err == nil {
		t.Error("a misspelled key is accepted")
	}
}

func tree(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

var source = regexp.MustCompile(`(?m)^ +(?:- src:|-) ((?:deploy|docs|\.cache|[A-Z])\S*)$`)

// TestReleaseNamesWhatIsThere: the files of the archives and packages exist, or `make release-files` writes them.
func TestReleaseNamesWhatIsThere(t *testing.T) {
	found := source.FindAllSubmatch(read(t, ".goreleaser.yaml"), -1)
	if len(found) < 8 {
		t.Fatalf("only %d files are named", len(found))
	}
	for _, m := range found {
		pattern := string(m[1])
		if strings.HasPrefix(pattern, ".cache/release/") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %v, %v", pattern, files, err)
		}
	}
}

// TestTheCaskHasEveryManPage: a cask takes no pattern.
func TestTheCaskHasEveryManPage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".cache/release/man/*"))
	if err != nil || len(files) < 30 {
		t.Fatalf("`make release-files` has written %d man pages: %v", len(files), err)
	}
	var config struct {
		Casks []struct{ Manpages []string } `json:"homebrew_casks"`
	}
	if err := yaml.Unmarshal(read(t, ".goreleaser.yaml"), &config); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		want = append(want, "man/"+filepath.Base(f))
	}
	got := slices.Sorted(slices.Values(config.Casks[0].Manpages))
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the cask installs\n%s\nand the manual is\n%s", got, want)
	}
}

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	return files
}

func TestWorkflows(t *testing.T) {
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.LintFiles(workflows(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p.Error())
	}
	wrong, err := linter.Lint("wrong.yml", []byte("on: push\njobs: {a: {runs-on: ubuntu-24.04, stepss: []}}\n"), nil)
	if err != nil || len(wrong) == 0 {
		t.Errorf("a misspelled key is accepted (%v)", err)
	}
}

var (
	anyAction    = regexp.MustCompile(`(?m)^ +- uses: (.*)$`)
	pinnedAction = regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// TestActionsArePinned: by commit, because a tag can be moved; dependabot.yml moves commit and comment together.
func TestActionsArePinned(t *testing.T) {
	seen := 0
	for _, path := range workflows(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range anyAction.FindAllStringSubmatch(string(text), -1) {
			if seen++; !pinnedAction.MatchString(m[1]) {
				t.Errorf("%s uses %s", path, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d actions are used", seen)
	}
}

// TestReleaseIsAttested: archives and packages by their checksums, and the image by its digest.
func TestReleaseIsAttested(t *testing.T) {
	text := string(read(t, ".github/workflows/release.yml"))
	for _, want := range []string{
		"subject-checksums: dist/checksums.txt", "subject-digest: ${{ steps.image.outputs.digest }}",
		"--digestfile digest", "id-token: write", "attestations: write",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the release lacks %q", want)
		}
	}
	if !strings.Contains(string(read(t, ".goreleaser.yaml")), "name_template: checksums.txt") {
		t.Error("the checksums have another name")
	}
}

var ciStep = regexp.MustCompile(`(?m)^ +- run: \.ci/run (\S+)$`)

// TestWorkflowsRunEveryStep: each step of .ci/run is one of the workflow, and no other.
func TestWorkflowsRunEveryStep(t *testing.T) {
	cmd := exec.Command(".ci/run", "--list")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(out))
	got := map[string]bool{}
	for _, m := range ciStep.FindAllSubmatch(read(t, ".github/workflows/ci.yml"), -1) {
		got[string(m[1])] = true
	}
	slices.Sort(want)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("the workflow runs\n%v, .ci/run has\n%v", names, want)
	}
}

// TestDependabotSeesEveryModule: each module of the repository is listed.
func TestDependabotSeesEveryModule(t *testing.T) {
	var d struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	if err := yaml.Unmarshal(read(t, ".github/dependabot.yml"), &d); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, u := range d.Updates {
		if u.Ecosystem == "gomod" {
			got = append(got, u.Directories...)
		}
	}
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "go.mod", "*/go.mod")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		want = append(want, strings.TrimSuffix("/"+strings.TrimSuffix(path, "go.mod"), "/"))
	}
	for i, dir := range want {
		if dir == "" {
			want[i] = "/"
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("dependabot.yml lists\n%v, the modules are\n%v", got, want)
	}
}
