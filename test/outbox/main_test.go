package outbox_test

import (
	"os"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(writerDSN); dsn != "" {
		writeAndWait(dsn)
		return
	}
	testkit.Main(m)
}
