package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/outboxtable"
)

// replayState is how far a run is: everything up to Key is acknowledged by Kafka. The file holds ids and times, no payloads.
type replayState struct {
	Run     string           `json:"run"`
	Options replayOptions    `json:"options"`
	Until   time.Time        `json:"until"`  // the start of the run where no other time was given
	Source  int              `json:"source"` // which of postgres.tables, or of --from-archive
	Key     *outboxtable.Key `json:"key"`    // the last row of it that is done
	Rows    int64            `json:"rows"`

	FileRows int64 `json:"file_rows"` // of an archive: rows that are done
	Done     bool  `json:"done"`

	Spans    []positionSpan `json:"spans,omitempty"`    // by position: what is still to be read of the topics
	Repeated int64          `json:"repeated,omitempty"` // records that repeat others
	Unplaced int64          `json:"unplaced,omitempty"` // records without a position
	Absent   int64          `json:"absent,omitempty"`   // events that no table has any more

	path string
}

// openReplayState reads the state of an interrupted run, or begins one.
func openReplayState(o *replayOptions) (*replayState, error) {
	s := &replayState{Run: newRunID(), Options: *o, path: o.resume}
	if s.path == "" {
		return s, nil
	}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.save() // that the file cannot be written is better known now
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "--resume", Err: err}
	}
	var was replayState
	if err := json.Unmarshal(text, &was); err != nil || was.Run == "" {
		return nil, fault.Usage("the file of --resume is no state of a replay", "name another file, which need not exist")
	}
	now, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var asked replayOptions
	if err := json.Unmarshal(now, &asked); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(was.Options, asked) {
		return nil, fault.Usage("the file of --resume belongs to a run that chose other rows or another topic", "give the same flags as then, or another file")
	}
	was.path = s.path
	return &was, nil
}

// newRunID sorts by time.
func newRunID() string {
	return time.Now().UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:8])
}

// left is what an interrupted run has done.
func (s *replayState) left() string {
	done := "Published so far: " + counted(s.Rows, "row", "rows") + ". "
	switch {
	case s.Rows == 0:
		return done + "It can be run again."
	case s.path != "":
		return done + "The same command goes on from there."
	}
	return done + "Run again it begins at the first row, and publishes these once more; with --resume FILE it could have gone on."
}

func (s *replayState) nextSource() error {
	s.Source, s.Key, s.FileRows = s.Source+1, nil, 0
	return s.save()
}

// save replaces the file as a whole: a crash leaves the state before or the one after.
func (s *replayState) save() error {
	if s.path == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := writeWhole(s.path, append(text, '\n')); err != nil {
		return &fault.Error{Kind: fault.Operator, Object: "--resume", Err: fmt.Errorf("the state cannot be written: %w", err)}
	}
	return nil
}

// writeWhole writes a file beside the old one, to the disk, and puts it in its place.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
