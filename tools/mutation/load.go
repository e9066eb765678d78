package main

import (
	"bytes"
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
)

// source is a package with its syntax and types, without its tests.
type source struct {
	dir   string
	fset  *token.FileSet
	files []*ast.File
	names []string // full paths of files
	texts [][]byte
	types *types.Package
	info  *types.Info
}

type listed struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

// load asks the go command for the package's files and for its imports' export data.
func load(path string) (*source, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	var last listed
	exports := make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath], last = l.Export, l
	}
	s := &source{dir: last.Dir, fset: token.NewFileSet(), info: &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue),
	}}
	for _, name := range last.GoFiles {
		name = filepath.Join(last.Dir, name)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files, s.names, s.texts = append(s.files, file), append(s.names, name), append(s.texts, text)
	}
	conf := types.Config{Importer: importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	s.types, err = conf.Check(last.ImportPath, s.fset, s.files, s.info)
	return s, err
}
