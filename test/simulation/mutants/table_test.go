package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTexts: each planted bug finds the text that it replaces, so that a change of the source does not disarm it.
func TestTexts(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		require.False(t, names[m.name], m.name)
		names[m.name] = true
		text, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), m.from), "%s: %s", m.name, m.file)
		require.NotEqual(t, m.from, m.to)
		if m.test == "" {
			continue
		}
		dir, name, _ := strings.Cut(m.test, " ")
		files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "func "+name+"(t ")
		}
		require.True(t, found, "%s: %s", m.name, m.test)
	}
}

// TestTogether: the parts of a bug that takes out several rules exist, and their texts do not overlap.
func TestTogether(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	for _, of := range together {
		for _, part := range of.parts {
			require.True(t, slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == part }), part)
		}
	}
	for _, b := range bugs() {
		if len(b.changes) > 1 {
			_, err := b.plant(t.TempDir())
			require.NoError(t, err, b.name)
		}
	}
}
