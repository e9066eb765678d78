package sqlstate

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/stretchr/testify/require"
)

func TestEverySQLSTATEHasAKind(t *testing.T) {
	tests := map[string]fault.Kind{
		"08006": fault.Retry, "57P01": fault.Retry, "57P02": fault.Retry, "57P03": fault.Retry, "57014": fault.Retry,
		"53300": fault.Retry, "53100": fault.Retry, "53200": fault.Retry, "40001": fault.Retry, "58030": fault.Retry,
		"55006": fault.Retry, "55P03": fault.Retry, "XX000": fault.Retry,
		"55000": fault.Operator, "42704": fault.Operator, "42501": fault.Operator, "28P01": fault.Operator,
		"28000": fault.Operator, "3D000": fault.Operator, "58P01": fault.Operator, "0A000": fault.Operator,
		"22023": fault.Operator, "42601": fault.Operator, "54000": fault.Operator,
		"42602": fault.Config,
		"XX001": fault.Fatal, "ZZZZZ": fault.Fatal, "": fault.Fatal,
	}
	for code, kind := range tests {
		require.Equal(t, kind, KindOf(code), code)
	}
}
