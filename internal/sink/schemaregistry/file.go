package schemaregistry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/encoding"
)

// maxFile bounds what is read of a file: maxKnown subjects of the longest kind and maxKnownTexts, escaped.
const maxFile = 128 << 20

// File keeps schemas in a file, which is replaced as a whole. It implements Store. Processes may share it: what one of
// them overwrites is asked for again.
type File struct {
	Path string
	URL  string // of the registry; ids of another one are not taken
}

// keptFile is the content of a File.
type keptFile struct {
	URL     string       `json:"url"`
	Schemas []keptSchema `json:"schemas"`
}

type keptSchema struct {
	Subject string               `json:"subject"`
	Version router.SchemaVersion `json:"version"` // -1: the latest
	ID      int32                `json:"id"`
	Source  *encoding.Source     `json:"source,omitempty"` // of encoded payloads
}

// Load implements Store. A file that is not there, or is another registry's, has no ids; one that cannot be understood
// has none either, as the next Save replaces it.
func (f File) Load(context.Context) ([]Known, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, f.failed(err)
	}
	defer func() { _ = file.Close() }()
	var k keptFile
	if json.NewDecoder(io.LimitReader(file, maxFile)).Decode(&k) != nil || k.URL != f.URL {
		return nil, nil
	}
	var all []Known
	for _, s := range k.Schemas {
		if s.ID >= 0 && (s.Version > 0 || s.Version == router.LatestSchema) {
			k := Known{UnresolvedSchema: router.UnresolvedSchema{Subject: s.Subject, Version: s.Version}, ID: s.ID}
			if s.Source != nil {
				k.Source = *s.Source
			}
			all = append(all, k)
		}
	}
	return all, nil
}

// Save implements Store. A crash leaves the old file or the new one.
func (f File) Save(_ context.Context, all []Known) error {
	k := keptFile{URL: f.URL, Schemas: []keptSchema{}}
	for _, one := range all {
		kept := keptSchema{Subject: one.Subject, Version: one.Version, ID: one.ID}
		if one.Source.Type != "" {
			kept.Source = &one.Source
		}
		k.Schemas = append(k.Schemas, kept)
	}
	text, err := json.Marshal(k)
	if err != nil {
		return f.failed(err)
	}
	next, err := os.CreateTemp(filepath.Dir(f.Path), filepath.Base(f.Path)+".*")
	if err != nil {
		return f.failed(err)
	}
	_, err = next.Write(append(text, '\n'))
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return f.failed(err)
	}
	return nil
}

func (f File) failed(err error) error {
	return &fault.Error{
		Kind: fault.Operator, Object: "file " + f.Path, Err: err,
		Next: "Let this process read and write the file of router.registry.cache, and create files beside it.",
	}
}
