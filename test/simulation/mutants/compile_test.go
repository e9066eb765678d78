package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBugsCompile: the seeds cannot find a planted bug that does not compile.
func TestBugsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles what the bugs are planted in")
	}
	t.Chdir(filepath.Join("..", "..", ".."))
	dirs := map[string]bool{}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, m := range mutants {
		if dir := "./" + filepath.Dir(m.file); !dirs[dir] {
			dirs[dir] = true
			args = append(args, dir)
		}
	}
	sources := list(t, args)
	for _, b := range bugs() {
		overlay, err := b.plant(t.TempDir())
		require.NoError(t, err)
		assert.NoError(t, sources.check(overlay, b.changes), b.name)
	}
}

// goPackages are packages by import path, and by directory.
type goPackages struct {
	exports map[string]string
	inDir   map[string]goPackage
}

type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// list reads what go list prints.
func list(t *testing.T, args []string) goPackages {
	t.Helper()
	out, err := exec.Command("go", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.NoError(t, err, string(exit.Stderr))
	}
	require.NoError(t, err)
	all := goPackages{map[string]string{}, map[string]goPackage{}}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p goPackage
		require.NoError(t, d.Decode(&p))
		all.exports[p.ImportPath], all.inDir[p.Dir] = p.Export, p
	}
	return all
}

// check type-checks the packages of the changed files with the overlay in place.
func (g goPackages) check(overlay string, changes []mutant) error {
	text, err := os.ReadFile(overlay)
	if err != nil {
		return err
	}
	var planted struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &planted); err != nil {
		return err
	}
	for _, c := range changes {
		dir, err := filepath.Abs(filepath.Dir(c.file))
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range g.inDir[dir].GoFiles {
			file := filepath.Join(dir, name)
			if other, is := planted.Replace[file]; is {
				file = other
			}
			parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, parsed)
		}
		cfg := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if g.exports[path] == "" {
				return nil, fmt.Errorf("no export data of %s", path)
			}
			return os.Open(g.exports[path])
		})}
		if _, err := cfg.Check(g.inDir[dir].ImportPath, fset, files, nil); err != nil {
			return err
		}
	}
	return nil
}
