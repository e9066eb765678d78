package inbox

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
