package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=…); without it the module's version or "unknown" is shown.
var version string

// buildInfo says what this binary was made from.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit, with -dirty where the tree had changes
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func build() buildInfo {
	b := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				b.Revision = s.Value
			case s.Key == "vcs.time":
				b.Time = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				b.Revision += "-dirty"
			}
		}
	}
	if b.Version == "" {
		b.Version = "unknown"
	}
	return b
}

// String is one line.
func (b buildInfo) String() string {
	s := b.Version
	if b.Revision != "" {
		s += " (" + b.Revision + ")"
	}
	return fmt.Sprintf("%s %s %s", s, b.Go, b.Platform)
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and what it was built from",
		Example: "  cdc-outbox version --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.printJSON(build())
			}
			_, err := fmt.Fprintln(a.stdout, "cdc-outbox "+build().String())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
