package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func goFile(t *testing.T, name, body string) file {
	t.Helper()
	f, err := readGo(
		name,
		[]byte(
			"package p\n\nimport (\n\"errors\"\n\"fmt\"\n\"log\"\n\"go.uber.org/zap\"\n)\n\n"+
				"const stopped = \"stopped\"\n\n"+body,
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMessages(t *testing.T) {
	for statement, want := range map[string][]string{
		`errors.New("no slot of this name")`:                              nil,
		`errors.New("No slot of this name")`:                              {"error-style"},
		`errors.New("no slot of this name.")`:                             {"error-style"},
		`errors.New("Kafka does not answer")`:                             nil,
		`errors.New("WAL is full")`:                                       nil,
		`fmt.Errorf("%w", err)`:                                           nil,
		`fmt.Errorf("Read the slot: %w", err)`:                            {"error-style"},
		`errors.New("ends here" + "\n")`:                                  {"error-style"},
		`errors.New(text)`:                                                nil,
		`c.log.Info("slot created", zap.String(key, "x"))`:                nil,
		`c.log.Info("Slot created")`:                                      {"log-style"},
		`c.log.With(zap.Error(err)).Info("Slot created")`:                 {"log-style"},
		`cfg.Logger.Warn("slot created.")`:                                {"log-style"},
		`c.log.Info("a " + "constant")`:                                   nil,
		`c.log.Info(stopped)`:                                             nil,
		`c.log.Info(fmt.Sprintf("slot %s", name))`:                        {"log-constant"},
		`c.log.Info("slot " + name)`:                                      {"log-constant"},
		`log.Fatal("A program of a person at a terminal.")`:               nil,
		`http.Error(w, "Not here", 404)`:                                  nil,
		`c.log.Info("slot created", zap.String("slot", "x"))`:             {"log-key-literal"},
		`c.log.Info("failed", zap.Error(err))`:                            nil,
		`use(fault.Error{Next: "Create the slot."})`:                      nil,
		`use(fault.Error{Next: "create the slot"})`:                       {"remedy-style", "remedy-style"},
		`use(fault.Error{Next: "Create it with " + name + " again."})`:    nil,
		`use(preflight.Finding{Remedy: "ALTER TABLE x"})`:                 {"remedy-style"},
		`use(preflight.Finding{Remedy: fmt.Sprintf("not checked here")})`: nil,
	} {
		t.Run(statement, func(t *testing.T) {
			found := checkMessages("p.go", goFile(t, "p.go", "func f() {\n"+statement+"\n}\n"))
			if got := rulesOf(found); !slices.Equal(got, want) && len(got)+len(want) > 0 {
				t.Errorf("%v, want %v", found, want)
			}
		})
	}
}

func TestLiterals(t *testing.T) {
	f := goFile(t, "p.go", "func f() {\n"+
		"use(\"the operator is \" +\n\"told of \" + name(\"x is mended\") + ` and\nwhoever reads`)\n"+
		"}\n// nobody reads this\nfunc g() {} // nor is anybody here\n/* it was\nmade anew */\n")
	var got []string
	for _, p := range f.paragraphs {
		got = append(got, rulesOf(checkWords("p.go", p))...)
	}
	slices.Sort(got)
	if want := []string{"anew", "mend", "nobody", "nobody", "told", "whoever"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTestNames(t *testing.T) {
	body := "func TestRun_lets_go(t *testing.T) {}\nfunc TestReceiver(t *testing.T) {}\n" +
		"func ExampleTracker_Ack() {}\nfunc FuzzIn_put(f *testing.F) {}\n" +
		"func TestARowThatWaitsForRoomInTheWindowAndIsSent(t *testing.T) {}\n" +
		"func Test_x() {}\nfunc (s suite) Test_y() {}\n"
	got := rulesOf(checkTestNames("p_test.go", goFile(t, "p_test.go", body)))
	if want := []string{"test-name", "test-name", "test-name-long", "test-name"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLogKeys(t *testing.T) {
	k := newLogKeys()
	k.add(
		"internal/base/telemetry/fields.go",
		goFile(
			t,
			"fields.go",
			"const (\nKeySlot = \"slot\"\nKeySide = \"side\"\nKeyHere = \"here\"\nOther = 1\n)\nvar x = KeyHere\n",
		),
	)
	k.add("internal/relay/connector/run.go", goFile(t, "run.go", "var y = telemetry.KeySlot\n"))
	k.add("internal/relay/connector/run_test.go", goFile(t, "run_test.go", "var y = telemetry.KeySide\n"))
	found := k.findings()
	if len(found) != 1 || found[0].text != "KeySide" {
		t.Errorf("%v, want KeySide", found)
	}
}

func TestAllowList(t *testing.T) {
	list, err := parseAllowList(
		"# comment\n\ndocs/ | mend | mend it | quotes a command\nREADME.md | told | x | never there\n",
		"allow.txt",
	)
	if err != nil {
		t.Fatal(err)
	}
	found := list.filter([]finding{
		{file: "docs/a/b.md", rule: "mend", text: "to mend it"},
		{file: "docs/a.md", rule: "told", text: "mend it"},
		{file: "README.md", rule: "mend", text: "mend it"},
	})
	if len(found) != 2 {
		t.Errorf("kept %v", found)
	}
	if unused := list.unused(); len(unused) != 1 || unused[0].line != 4 {
		t.Errorf("unused %v", unused)
	}
	if _, err := parseAllowList("docs/ | mend | mend it |", "allow.txt"); err == nil {
		t.Error("an entry without a reason is accepted")
	}
}

func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"README.md":       "A fine page.\n",
		"p.go":            "package p\n\n// P is fine.\nfunc P() {}\n",
		"Makefile":        "# nobody reads this\nx:\n\techo y\n",
		"testdata/x.yaml": "told: nobody\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"Makefile", "README.md", "p.go", "gone.go"}
	found, err := check(root, names)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !strings.HasPrefix(found[0].String(), `Makefile:1: [nobody] nobody reads this: `) {
		t.Errorf("%v", found)
	}
	if !excluded("testdata/x.yaml") || excluded("testdata/README.md") || excluded("docs/a.md") {
		t.Error("excluded")
	}
}
