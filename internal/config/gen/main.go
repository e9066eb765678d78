// Command gen writes the files that are derived from the comments above the configuration's fields:
// docs/configuration.md, the JSON Schema docs/configuration.schema.json, and docs_gen.go, which holds the comments for
// the help of the program, because the source is not there when it runs. go generate ./internal/config runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen: "+err.Error())
		os.Exit(1)
	}
}

// generate writes the files; dir is the directory of the package config.
func generate(dir string) error {
	files, err := generated(dir)
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated returns the content of each file.
func generated(dir string) (map[string][]byte, error) {
	docs, err := fieldDocs(dir)
	if err != nil {
		return nil, err
	}
	source, err := goSource(docs)
	if err != nil {
		return nil, err
	}
	shape, err := schema(docs)
	if err != nil {
		return nil, err
	}
	pages := filepath.Join(dir, "..", "..", "docs")
	return map[string][]byte{
		filepath.Join(dir, "docs_gen.go"):                 source,
		filepath.Join(pages, "configuration.md"):          []byte(markdown(docs)),
		filepath.Join(pages, "configuration.schema.json"): shape,
	}, nil
}
