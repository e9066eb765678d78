package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func configurationSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, "docs/configuration.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	const name = "file:///configuration.schema.json"
	if err := compiler.AddResource(name, v); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	block   = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	foreign = regexp.MustCompile(`(?m)^(apiVersion|groups|scrape_configs|route|services|receivers|exporters):`)
)

// TestSchemaTakesWhatIsDocumented: every piece of configuration in the documentation, and what the program prints.
func TestSchemaTakesWhatIsDocumented(t *testing.T) {
	s := configurationSchema(t)
	files, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	clouds, err := filepath.Glob(filepath.Join(root, "docs/clouds/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range append(files, clouds...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatch(text, -1) {
			if foreign.Match(m[1]) {
				continue
			}
			n++
			if err := s.Validate(tree(t, m[1])); err != nil {
				t.Errorf("%s: %v in\n%s", path, err, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d pieces were found", n)
	}
	for _, dir := range []string{"base", "overlays/plain"} {
		path := "deploy/kubernetes/" + dir + "/cdc-outbox.yaml"
		if err := s.Validate(tree(t, read(t, path))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	out, err := exec.Command(program, "config").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(tree(t, out)); err != nil {
		t.Errorf("cdc-outbox config: %v", err)
	}
	printed, err := exec.Command(program, "config", "schema").Output()
	if err != nil || !bytes.Equal(printed, read(t, "docs/configuration.schema.json")) {
		t.Errorf("cdc-outbox config schema prints something different (%v)", err)
	}
}

const program = root + "/bin/cdc-outbox"

// TestSchemaAndProgramAgree: what is wrong by its shape is refused by both, what is right is taken by both.
func TestSchemaAndProgramAgree(t *testing.T) {
	s := configurationSchema(t)
	right := []string{
		"", "postgres:\n", "delivery: exactly_once", "http: {listen: \"off\", stall: 1m30s, standby_ready: yes}",
		"postgres: {tables: [a, b.c], failover: true}", "postgres: {tables: \"a,b\"}",
		"window: {records: 7, bytes: 1GiB}", "window: {bytes: 1048576}",
		"traces: {sample: 1%}", "traces: {sample: 0.5}",
		"kafka: {topics: {create: true, config: {retention.ms: 1}, rules: [{pattern: \"a*\", partitions: 3}]}}",
		"postgres: {slot: 12}", "log: {level: }",
	}
	wrong := []string{
		"postgress: {}", "postgres: {slots: a}", "postgres: [a]", "delivery: twice", "http: {stall: 5}",
		"http: {stall: soon}", "http: {standby_ready: perhaps}", "window: {records: many}",
		"window: {records: 1.5}", "window: {bytes: 1.5MiB}",
		"window: {bytes: 3 parsecs}", "log: {level: loud}", "traces: {sample: 2}", "postgres: {slot: [a]}",
		"postgres: {tables: [{a: b}]}", "kafka: {topics: {rules: [{partitions: 3}]}}",
		"kafka: {topics: {rules: [{pattern: a, partition: 3}]}}", "a", "[a]",
	}
	for _, text := range right {
		if err := s.Validate(tree(t, []byte(text))); err != nil && text != "" {
			t.Errorf("the schema refuses %q: %v", text, err)
		}
		if out, code := validate(t, text); code != 0 {
			t.Errorf("the program refuses %q: %s", text, out)
		}
	}
	for _, text := range wrong {
		if err := s.Validate(tree(t, []byte(text))); err == nil {
			t.Errorf("the schema takes %q", text)
		}
		if out, code := validate(t, text); code != 2 {
			t.Errorf("the program takes %q: %s", text, out)
		}
	}
}

// validate asks the program, which sees no variable of this process.
func validate(t *testing.T, text string) (out string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	if err := os.WriteFile(path, []byte(strings.TrimSpace(text)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "config", "validate", path)
	cmd.Env = []string{}
	b, _ := cmd.CombinedOutput()
	return string(b), cmd.ProcessState.ExitCode()
}
