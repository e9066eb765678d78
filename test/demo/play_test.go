package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// transcript returns a view that writes to a file, as it would to a pipe, and what was written.
func transcript(t *testing.T) (*view, func() string) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return newView(f, time.Second), func() string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}
}

func TestPlay(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Postgres and builds the connector")
	}
	v, text := transcript(t)
	v.interval = 200 * time.Millisecond
	r, err := play(t.Context(), t.Context(), options{duration: 2 * time.Second, rate: 200, workers: 3, crash: true}, v)
	require.NoError(t, err)
	require.Empty(t, r.differences(), "%s", r.table())
	require.Positive(t, r.writing.rolledBack)
	require.Equal(t, 1, r.crashes)
	require.Contains(t, text(), "retained WAL")
	require.NotContains(t, text(), "\x1b", "no control sequences in a pipe")
}

// A connector that dies has to show, with the end of its log.
func TestPlayWithoutConnector(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Postgres")
	}
	binary := filepath.Join(t.TempDir(), "connector")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho no such luck\nexit 3\n"), 0o755))
	v, _ := transcript(t)
	_, err := play(t.Context(), t.Context(), options{duration: time.Second, workers: 1, binary: binary}, v)
	require.ErrorContains(t, err, "exit code 3")
	require.ErrorContains(t, err, "no such luck")
}

func TestPlayInterruptedWhilePreparing(t *testing.T) {
	if testing.Short() {
		t.Skip("may start Postgres")
	}
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	v, _ := transcript(t)
	_, err := play(t.Context(), stop, options{workers: 1}, v)
	require.ErrorContains(t, err, "interrupted")
}
