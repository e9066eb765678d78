// Package build describes the binary: its version and the source it was built from.
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// revision is set by the linker (-X PATH/internal/base/build.revision=REVISION) if the build does not see the
// repository, as in a container. A revision recorded by the Go toolchain comes first.
var revision string

// Info describes this binary.
type Info struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit, with -dirty if the tree had changes
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Of returns the description of this binary. If version is empty the module's version is used, or "unknown".
func Of(version string) Info {
	b := Info{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
	if b.Revision == "" && revision != "unknown" {
		b.Revision = revision
	}
	if b.Version == "" {
		b.Version = "unknown"
	}
	return b
}

// String is one line.
func (b Info) String() string {
	s := b.Version
	if b.Revision != "" {
		s += " (" + b.Revision + ")"
	}
	return fmt.Sprintf("%s %s %s", s, b.Go, b.Platform)
}
