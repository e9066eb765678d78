package conformance

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/testkit"
)

var captureAnew = flag.Bool("capture", false, "run real Debezium (needs Java 17 and Maven) and write down anew what it does")

// endOfCapture is the prefix of the logical message behind the last row; Capture.java waits for it.
const endOfCapture = "end of capture"

func TestMain(m *testing.M) { testkit.Main(m) }

func TestDebezium(t *testing.T) {
	cases := loadCases(t)
	db := testkit.Postgres(t)
	db.Exec(t, joined(cases, tableFile))
	var running *capture
	if *captureAnew {
		running = startCapture(t, db, cases)
	}
	db.Exec(t, joined(cases, rowsFile))
	db.Exec(t, fmt.Sprintf("SELECT pg_logical_emit_message(true, '%s', '')", endOfCapture))
	if *captureAnew {
		found := running.outcomes(t)
		for _, c := range cases {
			require.NotEmpty(t, found[c.name], "%s: nothing captured", c.name)
			require.NoError(t, c.leaveOutChance(found[c.name]))
			c.set(debeziumFile, strings.TrimSuffix(numbered(found[c.name]), "\n")+"\n")
			require.NoError(t, c.save())
		}
	}
}

// joined is the SQL of all cases, which runs as one transaction.
func joined(cases []*testCase, file string) string {
	var b strings.Builder
	for _, c := range cases {
		b.WriteString(c.file(file))
	}
	return b.String()
}
