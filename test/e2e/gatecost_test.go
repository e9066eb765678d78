//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGateLatency measures what waiting for a standby costs: two connectors read the same transactions at the same
// time, one waits and the other does not. GATE_SECONDS sets how long; the figures of docs/deploy.md are of 20.
func TestGateLatency(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("GATE_SECONDS"))
	if err != nil {
		seconds = 5
	}
	const perSecond = 200
	p := newPair(t, versionFrom(14, 99), false, nil, nil)
	var topics []string
	for _, name := range []string{"without", "with"} {
		env := map[string]string{
			"CDC_OUTBOX_POSTGRES_SLOT":        p.db.Slot + "_" + name,
			"CDC_OUTBOX_POSTGRES_PUBLICATION": p.db.Slot + "_" + name,
			"CDC_OUTBOX_ROUTER_TOPIC":         p.kind + "." + name, "CDC_OUTBOX_KAFKA_TOPICS_CREATE": "true",
			"CDC_OUTBOX_KAFKA_TOPICS_PARTITIONS": "1", "CDC_OUTBOX_KAFKA_TOPICS_REPLICATION_FACTOR": "1",
			"CDC_OUTBOX_KAFKA_TOPICS_CONFIG": `{"message.timestamp.type": "LogAppendTime"}`,
		}
		if name == "with" {
			env["CDC_OUTBOX_POSTGRES_WAIT_FOR_STANDBYS"] = "standby"
		}
		p.start(env)
		topics = append(topics, p.kind+"."+name)
	}
	conn := connect(t, p.db.DSN)
	const sql = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ($1, $2, 'happened',
		jsonb_build_object('at', (extract(epoch FROM clock_timestamp()) * 1000)::float8))`
	n := seconds * perSecond
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		_, err := conn.Exec(t.Context(), sql, p.kind, strconv.Itoa(i%500))
		require.NoError(t, err)
	}
	for _, topic := range topics {
		require.NoError(t, p.kafka.Await(p.within(patience), int64(n), topic))
		all, err := p.kafka.Read(p.within(patience), topic)
		require.NoError(t, err)
		var took []float64
		for _, r := range all[min(perSecond, len(all)/5):] { // the first create topics and connections
			var at float64
			_, err := fmt.Sscanf(string(r.Value), `{"at": %f}`, &at)
			require.NoError(t, err, "%s", r.Value)
			took = append(took, float64(r.Timestamp.UnixMilli())-at)
		}
		slices.Sort(took)
		t.Logf("%s: p50 %.1f ms, p99 %.1f ms of %d", topic, took[len(took)/2], took[len(took)*99/100], len(took))
	}
}
