package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestPages(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "Does it", Long: ".one\n\ntwo", Run: func(*cobra.Command, []string) {}}
	root.PersistentFlags().String("dsn", "", "where `TEXT` is")
	sub := &cobra.Command{Use: "do ID", Short: "Do", Example: `  tool do 'a\b'`, Run: func(*cobra.Command, []string) {}}
	sub.Flags().BoolP("yes", "y", false, "really")
	hidden := &cobra.Command{Use: "hidden", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(sub, hidden)
	dir := t.TempDir()
	require.NoError(t, Write(dir, root, "tool v1"))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "tool-do.1"), filepath.Join(dir, "tool.1")}, files)

	top, err := os.ReadFile(filepath.Join(dir, "tool.1"))
	require.NoError(t, err)
	require.Contains(t, string(top), "\n\\&.one\n.PP\ntwo\n", "a text that begins with a period is not a request")
	require.Contains(t, string(top), "SEE ALSO\ntool\\-do(1)\n")
	page := Page(sub, "tool v1")
	require.Contains(t, page, ".SH SYNOPSIS\n.B tool do ID [flags]\n")
	require.Contains(t, page, ".B \\-y, \\-\\-yes\nreally\n")
	require.Contains(t, page, ".SH GLOBAL OPTIONS\n.TP\n.B \\-\\-dsn TEXT\nwhere TEXT is\n")
	require.Contains(t, page, `tool do 'a\eb'`)

	if _, err := exec.LookPath("groff"); err != nil {
		t.Log("groff is not here, so it has not read the pages")
		return
	}
	cmd := exec.Command("groff", "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out), "warnings")
}
