package decision

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
