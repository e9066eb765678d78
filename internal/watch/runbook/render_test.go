package runbook

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRawHTMLIsLeftOut(t *testing.T) {
	html, err := render([]byte("a <b onclick=\"x()\">b</b>\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1))\n"))
	require.NoError(t, err)
	require.NotRegexp(t, `<b |<script|href="javascript`, string(html))
}

// GitHub's rules, by which the published links were written.
func TestHeadingsAreNamedAsOnGitHub(t *testing.T) {
	html, err := render([]byte("# slot_lost\n\n## Two instances: \"active for PID n\"\n\n### CDCOutboxDown\n\n" +
		"### `a.b` – c\n\n### Same\n\n### Same\n"))
	require.NoError(t, err)
	for _, name := range []string{
		"slot_lost", "two-instances-active-for-pid-n", "cdcoutboxdown", "ab--c", "same", "same-1",
	} {
		require.Contains(t, string(html), ` id="`+name+`">`)
	}
}
