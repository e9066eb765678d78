package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var testAbout = about{
	version: "v1", revision: "0123abc", created: time.Unix(1e9, 0).UTC(),
	ca: []byte("-----BEGIN CERTIFICATE-----\n"),
}

// TestLayout: two equal builds give the same bytes, and a content that was changed is found.
func TestLayout(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, dir := range []string{first, second} {
		if err := write(dir, testAbout, []string{"linux/amd64"}, map[string][]byte{"linux/amd64": binary}); err != nil {
			t.Fatal(err)
		}
		if _, err := read(dir); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := os.ReadFile(filepath.Join(first, "index.json"))
	two, _ := os.ReadFile(filepath.Join(second, "index.json"))
	if len(one) == 0 || string(one) != string(two) {
		t.Error("the same input gave another image")
	}
	blobs, err := filepath.Glob(filepath.Join(first, "blobs/sha256/*"))
	if err != nil || len(blobs) != 4 {
		t.Fatalf("%v, %v: index, manifest, configuration and layer", blobs, err)
	}
	for _, path := range blobs {
		content, _ := os.ReadFile(path)
		content[len(content)/2]++
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(first); err == nil {
			t.Errorf("%s was changed, and nothing was found", path)
		}
		content[len(content)/2]--
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var instruction = regexp.MustCompile(`(?m)^(USER|ENV|EXPOSE|ENTRYPOINT|CMD) (.*)$`)

// TestTheSameAsTheDockerfile: both build the same image.
func TestTheSameAsTheDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, _ := strings.Cut(string(text), "\nFROM scratch\n")
	p := processOf(about{version: "${VERSION}", revision: "${REVISION}"})
	got := map[string]string{}
	for _, m := range instruction.FindAllStringSubmatch(stage, -1) {
		got[m[1]] = m[2]
	}
	for name, want := range map[string]string{
		"USER": p.User, "ENV": p.Env[0], "EXPOSE": "9464",
		"ENTRYPOINT": `["` + p.Entrypoint[0] + `"]`, "CMD": `["` + p.Cmd[0] + `"]`,
	} {
		if got[name] != want {
			t.Errorf("%s is %q in the Dockerfile and %q here", name, got[name], want)
		}
	}
	for key, value := range p.Labels {
		if !strings.Contains(stage, key+`="`+value+`"`) {
			t.Errorf("the Dockerfile has no label %s=%q", key, value)
		}
	}
	if n := strings.Count(stage, "org.opencontainers"); n != len(p.Labels) {
		t.Errorf("the Dockerfile has %d labels", n)
	}
}
