package letterbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// file is an export, which a retry reads letters from, and to which it appends its marks: the topic's marks are deleted
// as its letters are, and the file outlives both.
type file struct {
	*os.File
	topic  string
	places map[*deadletter.Entry]int64 // of the lines of letters, in bytes
	torn   bool                        // the last line has no end: a mark that a crash cut off
}

// openFile reads a file into the ledger. Only with write can marks be appended.
func openFile(
	ctx context.Context, path string, write bool, ledger *deadletter.Ledger, report progress.Reporter,
) (*file, error) {
	flags := os.O_RDONLY
	if write {
		flags = os.O_RDWR | os.O_APPEND
	}
	opened, err := os.OpenFile(path, flags, 0)
	if err != nil {
		next := "name a file that dead-letter export has written"
		if write {
			next += "; it must be writable, because it remembers what was retried"
		}
		return nil, fault.Usage("--file: "+err.Error(), next)
	}
	f := &file{File: opened, places: map[*deadletter.Entry]int64{}}
	s := &scanner{file: f, ledger: ledger, sum: sha256.New()}
	if err := s.scan(ctx, report); err != nil {
		_ = opened.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &fault.Error{
			Kind: fault.Operator, Object: "file " + path, Err: fmt.Errorf("line %d: %w", s.lines, err),
			Next: "Copy the file again from where dead-letter export wrote it, or export the letters again.",
		}
	}
	return f, nil
}

// scanner reads a file from its beginning to its end.
type scanner struct {
	file    *file
	ledger  *deadletter.Ledger
	sum     hash.Hash
	at      int64 // bytes
	lines   int64
	records int64
	ended   bool
}

func (s *scanner) scan(ctx context.Context, report progress.Reporter) error {
	in := bufio.NewReaderSize(s.file, 1<<16)
	for ctx.Err() == nil {
		b, err := in.ReadBytes('\n')
		switch {
		case err == nil:
			s.lines++
			if err := s.line(b); err != nil {
				return err
			}
			s.at += int64(len(b))
			if s.lines%1000 == 0 {
				report.Step(progress.Step{What: "file " + s.file.Name(), Done: s.lines, Unit: "records"})
			}
		case !errors.Is(err, io.EOF):
			return err
		case !s.ended:
			return errors.New("the file ends before the export did: a part is missing")
		default:
			s.file.torn = len(b) > 0
			return nil
		}
	}
	return ctx.Err()
}

func (s *scanner) line(b []byte) error {
	if s.lines == 1 {
		var h header
		if err := json.Unmarshal(b, &h); err != nil || h.Format != format || h.Topic == "" {
			return errors.New("it is not a file of dead letters, or a newer version wrote it")
		}
		s.file.topic = h.Topic
		_, _ = s.sum.Write(b)
		return nil
	}
	var l struct {
		line
		trailer
	}
	switch err := json.Unmarshal(b, &l); {
	case err != nil && s.ended: // the rest of a mark that a crash cut off
		return nil
	case err != nil:
		return errors.New("it is not JSON of a dead letter")
	case l.SHA256 != "":
		if s.ended || l.SHA256 != hex.EncodeToString(s.sum.Sum(nil)) || l.Records != s.records {
			return errors.New("the file is damaged: the lines before are not as they were written")
		}
		s.ended = true
		return nil
	}
	_, _ = s.sum.Write(b)
	r := l.record()
	if s.ended && !deadletter.IsMark(r.Headers) {
		return errors.New("it is not a mark of a retry, and follows the end of the export")
	}
	s.records++
	s.ledger.Add(r)
	if deadletter.IsMark(r.Headers) {
		return nil
	}
	if e := s.ledger.Of(r); e != nil && s.file.places[e] == 0 {
		s.file.places[e] = s.at
	}
	return nil
}

// letter reads one letter again.
func (f *file) letter(at int64) (*deadletter.Letter, error) {
	b, err := bufio.NewReader(io.NewSectionReader(f, at, 1<<62)).ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, err
	}
	return deadletter.Parse(l.record())
}

// note appends marks, and returns when they are on the disk.
func (f *file) note(marks []*router.Record) error {
	var b bytes.Buffer
	if f.torn {
		b.WriteByte('\n')
	}
	for _, m := range marks {
		text, err := encode(lineOf(&deadletter.Record{
			Partition: m.Partition, Offset: -1, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value, Headers: m.Headers,
		}))
		if err != nil {
			return err
		}
		b.Write(text)
	}
	f.torn = true // if the write fails in between
	if _, err := f.Write(b.Bytes()); err != nil {
		return err
	}
	f.torn = false
	return f.Sync()
}
