package progress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMeter: rate and time left come from what this run has done, and are left out while they are not known.
func TestMeter(t *testing.T) {
	at := time.Unix(0, 0)
	var m Meter
	step := Step{What: "public.outbox", Done: 20_000, Total: 178_880, Unit: "rows"}
	require.Equal(t, "public.outbox: 20,000 of 178,880 rows (11 %)", m.Line(step, at))
	step.Done = 20_750
	require.Equal(t, "public.outbox: 20,750 of 178,880 rows (11 %), 750/s, 3 min 30 s left",
		m.Line(step, at.Add(time.Second)))
	step.Done, step.Place = 178_880, "up to 2026-01-31"
	require.Equal(t, "public.outbox: 178,880 of 178,880 rows (100 %), up to 2026-01-31, 1,588/s",
		m.Line(step, at.Add(100*time.Second)))

	other := Step{What: "reading Kafka", Done: 5, Unit: "records"}
	require.Equal(t, "reading Kafka: 5 records", m.Line(other, at.Add(101*time.Second)),
		"another count starts from its own first step")
	other.Total, other.About = 4, true
	require.Equal(t, "reading Kafka: 5 records", m.Line(other, at.Add(101*time.Second)), "more than was estimated")
	other.Total = 10
	require.Equal(t, "reading Kafka: 5 of about 10 records (50 %)", m.Line(other, at.Add(101*time.Second)))
}
