// Package leak looks for goroutines that tests have left behind, with the patience that a busy machine takes.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is for goroutines that are ending: goleak itself waits for less than half a second. What has leaked is still
// there when it is over.
const patience = 30 * time.Second

// VerifyTestMain is goleak.VerifyTestMain with patience. Before it looks it ends what the tests have shared.
func VerifyTestMain(m *testing.M, ends ...func() error) {
	code := m.Run()
	for _, end := range ends {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "end what tests have shared:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find is goleak.Find with patience.
func Find(opts ...goleak.Option) error { return find(patience, opts...) }

func find(patience time.Duration, opts ...goleak.Option) error {
	for end := time.Now().Add(patience); ; {
		if err := goleak.Find(opts...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
