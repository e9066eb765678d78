//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// TestLiesOfAServer is TestLiesOfABroker with Postgres as the liar, message by message of its protocol.
func TestLiesOfAServer(t *testing.T) {
	c, _ := sharedKafka(t)
	for name, types := range map[string]string{
		"login": "RSK", "ready": "Z", "columns": "Tt", "values": "D", "complete": "C12", "stream": "d", "copy": "W",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testkit.Postgres(t)
			emptyTable(t, db)
			topic := kafkaclient.Topic{Name: db.Name + ".events", Partitions: 1}
			require.NoError(t, c.Create(within(t, patience), topic))
			peer, dsn := postgresProxy(t, db)
			v := &victim{peer: peer, what: name, rig: &rig{
				T: t, db: db, kafka: &kafka.Cluster{Client: c.Client}, env: map[string]string{
					"CDC_OUTBOX_POSTGRES_DSN": dsn, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
					"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": c.Addrs()[0],
				},
			}}
			v.begin()
			for _, kind := range some(t, lies.Postgres(), 1) {
				v.lieTo(kind, func(a proxy.Answer) bool { return strings.ContainsRune(types, rune(a.Type)) })
			}
		})
	}
}
