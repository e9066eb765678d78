package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

const command = "github.com/cdc-outbox/cdc-outbox/cmd/cdc-outbox"

// buildRelay builds the connector as it is released: static, without cgo.
func buildRelay(ctx context.Context, existing string, dir *scratch.Dir, v *view) (string, error) {
	if existing != "" {
		return filepath.Abs(existing)
	}
	v.step("building cdc-outbox (CGO_ENABLED=0)")
	binary := dir.Join("cdc-outbox")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, command)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", command, err, out)
	}
	return binary, nil
}

// startPostgres starts a server on a data directory of its own. When no server is installed its binaries are fetched
// first, which is shown.
func startPostgres(ctx context.Context, version string, v *view) (*postgres.Server, error) {
	fetched := countDownloads()
	defer fetched.end()
	done := make(chan struct{})
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		fetched.show(done, v)
	}()
	server, err := postgres.Start(ctx, postgres.Options{Version: version})
	close(done)
	<-shown
	return server, err
}

// downloads counts what comes in through http.DefaultTransport, which the library that fetches Postgres uses. It has no
// progress report of its own.
type downloads struct {
	http.RoundTripper
	bytes, total atomic.Int64
}

func countDownloads() *downloads {
	d := &downloads{RoundTripper: http.DefaultTransport}
	http.DefaultTransport = d
	return d
}

func (d *downloads) end() { http.DefaultTransport = d.RoundTripper }

// CloseIdleConnections is passed on: http.Client looks for it.
func (d *downloads) CloseIdleConnections() {
	if t, ok := d.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

func (d *downloads) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(req)
	if err == nil {
		d.total.Add(max(resp.ContentLength, 0))
		resp.Body = &countedBody{ReadCloser: resp.Body, bytes: &d.bytes}
	}
	return resp, err
}

// show prints the progress every two seconds, if there is any.
func (d *downloads) show(done <-chan struct{}, v *view) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	last := int64(0)
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if n := d.bytes.Load(); n > last {
				last = n
				v.step(fmt.Sprintf("fetching PostgreSQL, this once: %s of %s", size(n), size(d.total.Load())))
			}
		}
	}
}

// countedBody counts what is read of a response.
type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}
