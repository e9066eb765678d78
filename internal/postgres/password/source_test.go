package password

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// endless is a command's output; Read counts what was taken.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	e.left -= n
	return n, nil
}

// TestBounded: what os/exec copies out of a pipe is bounded, too. It uses a ReadFrom where there is one.
//
// Bug (configuration): The bound of what a password command prints was embedded in a buffer, and os/exec used the
// buffer's ReadFrom. Cost: memory without bound until the command's timeout.
func TestBounded(t *testing.T) {
	var b bounded
	n, err := io.Copy(&b, &endless{left: 10 << 20})
	require.NoError(t, err)
	require.EqualValues(t, 10<<20, n, "the command can go on writing")
	require.Equal(t, most+1, b.kept.Len())
}
