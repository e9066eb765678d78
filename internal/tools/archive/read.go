package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Verify reads a file to its end: the checksum, every row, and their number.
func Verify(path string) (Manifest, error) {
	m, err := verifySum(path)
	if err != nil {
		return m, err
	}
	return m, Read(path, func(*pgoutput.Relation, pgoutput.Tuple) error { return nil })
}

func manifestOf(path string) (m Manifest, err error) {
	text, err := os.ReadFile(path + ManifestSuffix)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s is not a manifest: %w", path+ManifestSuffix, err)
	}
	return m, nil
}

// verifySum compares the file with the manifest beside it.
func verifySum(path string) (Manifest, error) {
	m, err := manifestOf(path)
	if err != nil {
		return m, err
	}
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return m, err
	}
	if n != m.Bytes || hex.EncodeToString(sum.Sum(nil)) != m.SHA256 || m.File != filepath.Base(path) {
		return m, fmt.Errorf("%s is not the file that its manifest names: it has %d bytes of %d, or another "+
			"checksum or name", path, n, m.Bytes)
	}
	return m, nil
}

// Files are the archives that a path names: itself, or the files of the directory, by name.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Suffix) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, err
}

// About returns a file's header and the manifest beside it, without reading the rows.
func About(path string) (h Header, m Manifest, err error) {
	if m, err = manifestOf(path); err != nil {
		return h, m, err
	}
	err = open(path, func(in *bufio.Reader) error {
		h, err = readHeader(in)
		return err
	})
	return h, m, err
}

// Read hands over the rows, which live until take returns. A file that was cut short is an error, after its rows.
func Read(path string, take func(rel *pgoutput.Relation, row pgoutput.Tuple) error) error {
	return open(path, func(in *bufio.Reader) error { return read(in, take) })
}

func open(path string, use func(*bufio.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	if err := use(bufio.NewReader(z)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func readHeader(in *bufio.Reader) (h Header, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &h) != nil || h.Format != Format {
		return h, errors.Join(errors.New("it does not begin as an archive does"), err)
	}
	return h, nil
}

func read(in *bufio.Reader, take func(*pgoutput.Relation, pgoutput.Tuple) error) error {
	h, err := readHeader(in)
	if err != nil {
		return err
	}
	rel := h.relation()
	for n := int64(0); ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("it ends after %d rows, without saying so: %w", n, err)
		}
		if bytes.HasPrefix(line, []byte("{")) {
			return readManifest(in, line, n)
		}
		row, err := parseRow(line)
		if err != nil || len(row) != len(rel.Columns) {
			return errors.Join(fmt.Errorf("row %d cannot be read", n+1), err)
		}
		if err := take(rel, row); err != nil {
			return err
		}
	}
}

func readManifest(in *bufio.Reader, line []byte, n int64) error {
	var m Manifest
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	if m.Rows != n {
		return fmt.Errorf("it holds %d rows and says %d", n, m.Rows)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return errors.Join(errors.New("something follows its end"), err)
	}
	return nil
}

func parseRow(line []byte) (pgoutput.Tuple, error) {
	var values []json.RawMessage
	if err := json.Unmarshal(line, &values); err != nil {
		return nil, err
	}
	row := make(pgoutput.Tuple, len(values))
	for i, v := range values {
		switch v[0] {
		case 'n':
			row[i].Kind = pgoutput.Null
		case '{':
			var e encoded
			if err := json.Unmarshal(v, &e); err != nil {
				return nil, err
			}
			row[i] = pgoutput.Value{Kind: pgoutput.Text, Data: e.Base64}
		default:
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, err
			}
			row[i] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(s)}
		}
	}
	return row, nil
}
