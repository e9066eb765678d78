package service

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

func TestRunbookLinks(t *testing.T) {
	const published = "https://github.com/cdc-outbox/cdc-outbox/blob/main/docs/runbook.md"
	p := &process{Options: Options{Config: &config.Loaded{}, Logger: zap.NewNop()}}
	for _, c := range []struct{ setting, message, page string }{
		{config.RunbookPublished, published + "#slot_lost", published + "#slot_lost"},
		{"https://wiki/x?y=1", "https://wiki/x?y=1#slot_lost", "https://wiki/x?y=1#slot_lost"},
		{config.RunbookSelf, published + "#slot_lost", "runbook/#slot_lost"}, // no address is bound
	} {
		p.Config.Monitor.RunbookURL = c.setting
		require.Equal(t, c.message, p.runbook("slot_lost"), c.setting)
		require.Equal(t, c.message, Runbook(p.Config, "slot_lost"), c.setting)
		require.Equal(t, c.page, p.runbookFromPage("slot_lost"), c.setting)
	}
	var err error
	p.server, err = telemetry.Listen(t.Context(), "127.0.0.1:0", telemetry.Handlers{Metrics: prometheus.NewRegistry()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.server.Run(t.Context())) }) // which has ended, so it closes
	require.Equal(t, "http://"+p.server.Addr()+"/runbook/#slot_lost", p.runbook("slot_lost"))
}

func TestOwnAddress(t *testing.T) {
	named := func() (string, error) { return "relay-0", nil }
	for listens, want := range map[string]string{
		"127.0.0.1:9464": "http://127.0.0.1:9464/", "[::1]:1": "http://[::1]:1/", "10.0.0.3:80": "http://10.0.0.3:80/",
		"0.0.0.0:9464": "http://relay-0:9464/", "[::]:9464": "http://relay-0:9464/", "nonsense": "",
	} {
		require.Equal(t, want, ownAddress(listens, named), listens)
	}
	require.Empty(t, ownAddress("[::]:1", func() (string, error) { return "", errors.New("no") }))
}
