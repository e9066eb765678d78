package schemacheck

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
)

const (
	maxFiles = 1000
	maxFile  = 4 << 20 // bytes; the relay takes no longer schema
)

// types are the registry's words for files.
var types = map[string]string{".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}

// File is a schema in a file.
type File struct {
	Path string
	schemaregistry.Proposal
}

// Read reads schemas from files, and from the files with a known ending below directories. The subject is the file's
// name without its ending, or the given one, which goes with a single file. The files are in the order of subjects.
func Read(paths []string, subject string) ([]File, error) {
	var files []File
	for _, path := range paths {
		found, err := below(path)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if len(files) == maxFiles {
				return nil, fault.Usage(fmt.Sprintf("there are more than %d schemas", maxFiles), "Name fewer files.")
			}
			f, err := read(one)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	switch {
	case len(files) == 0:
		return nil, fault.Usage("there is no file with a schema (.avsc, .json, .proto)",
			"Name a file, or a directory of them.")
	case subject != "" && len(files) > 1:
		return nil, fault.Usage("--subject goes with one file", "Name one file, or name each file after its subject.")
	case subject != "":
		files[0].Subject = subject
	}
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Subject, b.Subject) })
	for i := range files[1:] {
		if files[i].Subject == files[i+1].Subject {
			return nil, fault.Usage(fmt.Sprintf("%s and %s are both for subject %s", fault.Printable(files[i].Path),
				fault.Printable(files[i+1].Path), fault.Printable(files[i].Subject)), "Name one of them.")
		}
	}
	return files, nil
}

// below lists the schemas below a directory, without hidden directories; for a file, the file.
func below(path string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && at != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
		case at == path || types[filepath.Ext(at)] != "":
			found = append(found, at)
		}
		if len(found) > maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil, fault.Usage(fault.OneLine(err).Error(), "Name a file with a schema, or a directory of them.")
	}
	return found, nil
}

func read(path string) (File, error) {
	ending := filepath.Ext(path)
	f := File{Path: path}
	f.Type, f.Subject = types[ending], strings.TrimSuffix(filepath.Base(path), ending)
	if f.Type == "" {
		return f, fault.Usage(fault.Printable(path)+" ends neither in .avsc nor in .json nor in .proto",
			"Rename it: the ending is the type of the schema.")
	}
	if f.Subject == "" {
		return f, fault.Usage(fault.Printable(path)+" has no name in front of its ending", "Name it after its subject.")
	}
	text, err := readBounded(path)
	if err != nil {
		return f, fault.Usage(fault.OneLine(err).Error(), "Name a file with a schema.")
	}
	f.Text = string(text)
	return f, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New(path + " has more than 4 MiB, and no schema may")
	}
	return text, err
}
