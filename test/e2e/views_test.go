//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// The views, in the order of the table's columns.
const (
	viewReady   = "/readyz"
	viewPage    = "/status" // what the page shows
	viewLog     = "log"
	viewWebhook = "webhook"
	viewStatus  = "status"
	viewWhy     = "status --why"
	viewCheck   = "check"
	viewSlot    = "slot"
)

var allViews = []string{viewReady, viewPage, viewLog, viewWebhook, viewStatus, viewWhy, viewCheck, viewSlot}

// sight is when one view showed a fault, counted from the fault.
type sight struct {
	first, right time.Duration // 0: not seen
	text         string        // what the view says last
}

// watch looks at all views of a connector until each has shown a fault.
type watch struct {
	*stage
	fault *breakage
	began time.Time
	log   int // what of the log is older than the fault
	hooks int // and of what was posted

	mu     sync.Mutex
	sights map[string]*sight
	cause  map[string]any // of /status, when it was right
	last   map[string]any // of /status
}

// saw keeps what a view said. trouble reports whether the view shows that something is wrong.
func (w *watch) saw(view, text string, trouble bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, now := w.sights[view], time.Since(w.began)
	if s.right > 0 {
		return
	}
	s.text = text
	if trouble && s.first == 0 {
		s.first = now
	}
	if !trouble {
		return
	}
	for _, word := range slices.Concat(w.fault.words, w.fault.remedy) {
		if view == viewReady && slices.Contains(w.fault.remedy, word) {
			continue // one sentence, why
		}
		if !strings.Contains(text, word) {
			return
		}
	}
	s.right = now
}

// done reports whether every view that is expected to has shown the cause.
func (w *watch) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for view, s := range w.sights {
		if s.right == 0 && !slices.Contains(w.fault.silent, view) {
			return false
		}
	}
	return true
}

// look watches until all views have shown the fault or the limit has passed.
func (w *watch) look(limit time.Duration) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, view := range []func(){
		w.lookInside, w.command(viewStatus, "status"), w.command(viewWhy, "status", "--why"),
		both(w.command(viewCheck, "check", "--quiet"), w.command(viewSlot, "slot")),
	} {
		wg.Go(func() {
			for {
				view()
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond): //waits:ok the pause between two queries
				}
			}
		})
	}
	for end := w.began.Add(limit); time.Now().Before(end) && !w.done(); {
		time.Sleep(50 * time.Millisecond) //waits:ok the pause between two queries
	}
	close(stop)
	wg.Wait()
}

// lookInside looks at what the process itself shows.
func (w *watch) lookInside() {
	ready, reason := w.p.IsReady()
	w.saw(viewReady, reason, !ready)
	if st, err := w.p.Status(); err == nil {
		cause, _ := st["cause"].(map[string]any)
		code := fmt.Sprint(cause["code"])
		w.saw(viewPage, fmt.Sprint(code, ": ", cause["sentence"], " ", cause["object"], " ", cause["next"],
			" ", cause["commands"]), !calm(code))
		w.mu.Lock()
		if w.last = cause; w.cause == nil && w.sights[viewPage].right > 0 {
			w.cause = cause
		}
		w.mu.Unlock()
	}
	for line := range strings.Lines(w.p.Log()[w.log:]) {
		var entry struct{ Level string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level != "info" && entry.Level != "debug" {
			w.saw(viewLog, unescaped(line), true)
		}
	}
	w.hook.mu.Lock()
	bodies := slices.Clone(w.hook.bodies[w.hooks:])
	w.hook.mu.Unlock()
	for _, b := range bodies {
		cause, _ := b["cause"].(map[string]any)
		text, _ := json.Marshal(b)
		w.saw(viewWebhook, unescaped(string(text)), b["state"] == "firing" && !calm(fmt.Sprint(cause["code"])))
	}
}

// both runs one after the other: each of the two commands may hold the slot for a moment.
func both(first, second func()) func() {
	return func() {
		first()
		second()
	}
}

// unescaped undoes the escapes of a JSON text, whatever else the text loses by it.
func unescaped(text string) string { return strings.NewReplacer(`\"`, `"`, `\n`, "\n").Replace(text) }

func calm(code string) bool {
	return slices.Contains([]string{"idle", "streaming", "catching_up", "<nil>"}, code)
}

// command runs a command and takes its output as a view.
func (w *watch) command(view string, args ...string) func() {
	return func() {
		out, code := w.run(args...)
		trouble := code != 0
		switch view {
		case viewStatus:
			trouble = trouble || !strings.HasPrefix(out, "✓")
		case viewWhy:
			word, _, _ := strings.Cut(out, ":")
			trouble = !calm(word)
		case viewSlot:
			trouble = trouble || strings.Contains(out, "last run") || strings.Contains(out, "about to be lost")
		case viewCheck:
			trouble = trouble || strings.Contains(out, "\n!") || strings.HasPrefix(out, "!")
		}
		w.saw(view, out, trouble)
	}
}

// run runs a command of the binary with the connector's configuration. Several goroutines call it.
func (s *stage) run(args ...string) (string, int) {
	env := maps.Clone(s.env)
	env["CDC_OUTBOX_HTTP_LISTEN"] = s.p.HTTPAddr()
	cmd, err := process.Start(process.Options{Args: args, Env: env})
	if err != nil {
		return err.Error(), -1
	}
	defer func() { _ = cmd.Close() }()
	code, err := cmd.Wait(patience)
	if err != nil {
		return err.Error(), -1
	}
	return cmd.Stdout() + cmd.Log(), code
}

// paste runs the commands of a remedy as an operator would: SQL in psql as a superuser, anything else in a shell.
func (s *stage) paste(commands []string) error {
	for _, c := range commands {
		cmd := exec.Command(filepath.Join(s.db.BinDir(), "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
			s.db.Server.DSN(s.db.Name))
		cmd.Stdin = strings.NewReader(c)
		first, _, _ := strings.Cut(c, " ")
		if first == "cdc-outbox" || strings.HasSuffix(first, ".sh") {
			cmd = exec.Command("sh", "-c", c)
			cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"))
			for k, v := range s.env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			cmd.Env = append(cmd.Env, "CDC_OUTBOX_HTTP_LISTEN="+s.p.HTTPAddr())
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", c, err, out)
		}
		s.Logf("%s: %s", c, out)
	}
	return nil
}

// table is the result as Markdown.
type viewTable struct{ strings.Builder }

func (v *viewTable) begin() {
	fmt.Fprintf(v, "| fault | %s | the remedy, pasted |\n|---|%s---|\n", strings.Join(allViews, " | "),
		strings.Repeat("---|", len(allViews)))
}

func (v *viewTable) row(w *watch, remedy string) {
	fmt.Fprintf(v, "| %s |", w.fault.name)
	for _, view := range allViews {
		s := w.sights[view]
		switch {
		case s.right > 0:
			fmt.Fprintf(v, " %.1f / %.1f |", s.first.Seconds(), s.right.Seconds())
		case slices.Contains(w.fault.silent, view):
			v.WriteString(" – |")
		case s.first > 0:
			fmt.Fprintf(v, " %.1f / **wrong** |", s.first.Seconds())
		default:
			v.WriteString(" **nothing** |")
		}
	}
	fmt.Fprintf(v, " %s |\n", remedy)
}

func report(t *testing.T, w *watch) {
	for _, view := range allViews {
		s := w.sights[view]
		if s.right == 0 && !slices.Contains(w.fault.silent, view) {
			t.Errorf("%s: %s does not say %q; it says:\n%s", w.fault.name, view, w.fault.words, s.text)
		}
	}
	t.Logf("%s: %v\nnext: %v\n%v", w.fault.name, w.last["sentence"], w.last["next"], w.last["commands"])
}
