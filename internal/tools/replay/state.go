package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
)

// State is how far a run is: everything up to Key is acknowledged by Kafka. The file holds ids and times, no payloads.
type State struct {
	Run     string           `json:"run"`
	Options Choice           `json:"options"`
	Until   time.Time        `json:"until"`  // the start of the run if no other time was given
	Source  int              `json:"source"` // which of postgres.tables, or of --from-archive
	Key     *outboxtable.Key `json:"key"`    // the last row of it that is done
	Rows    int64            `json:"rows"`

	FileRows int64 `json:"file_rows"` // of an archive: rows that are done
	Done     bool  `json:"done"`

	Spans    []span `json:"spans,omitempty"`    // by position: the parts of the topics still to be read
	Repeated int64  `json:"repeated,omitempty"` // records that repeat others
	Unplaced int64  `json:"unplaced,omitempty"` // records without a position
	Absent   int64  `json:"absent,omitempty"`   // events that no table has any more

	path    string
	lock    *os.File
	refused int64 // rows that could not be published, of this part of the run
}

// openState reads the state of an interrupted run, or begins one. Until close no other process of this machine can.
func openState(o *Options) (*State, error) {
	s := &State{Run: o.Run, Options: o.Choice, path: o.Resume}
	if s.path == "" {
		return s, nil
	}
	lock, err := lockState(s.path)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	opened, err := s.read(o)
	if err != nil {
		s.close()
	}
	return opened, err
}

var errLocked = errors.New("another process runs with this file")

// lockState keeps a second process away from the file: it would publish the same rows once more. The lock is a file
// beside it, because save replaces the file.
func lockState(path string) (*os.File, error) {
	lock, err := lockFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock"))
	switch {
	case errors.Is(err, errLocked):
		return nil, &fault.Error{
			Kind: fault.Operator, Object: "--resume " + path, Err: err,
			Next: "Wait until it has ended, or end it; the same command goes on from there.",
		}
	case err != nil:
		return nil, &fault.Error{
			Kind: fault.Operator, Object: "--resume", Err: fmt.Errorf("the state cannot be locked: %w", err),
		}
	}
	return lock, nil
}

// close lets other processes have the state. The lock's file stays, because another process may have opened it already;
// it is removed with the last run.
func (s *State) close() {
	if s.lock == nil {
		return
	}
	if s.Done {
		_ = os.Remove(s.lock.Name())
	}
	_ = s.lock.Close()
}

func (s *State) read(o *Options) (*State, error) {
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.save() // that the file cannot be written is better known now
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "--resume", Err: err}
	}
	var was State
	if err := json.Unmarshal(text, &was); err != nil || was.Run == "" {
		return nil, fault.Usage(
			"the file of --resume is not a state of a replay", "name another file, which need not exist",
		)
	}
	now, err := json.Marshal(o.Choice)
	if err != nil {
		return nil, err
	}
	var asked Choice
	if err := json.Unmarshal(now, &asked); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(was.Options, asked) {
		return nil, fault.Usage(
			"the file of --resume belongs to a run that chose other rows or another topic",
			"give the same flags as then, or another file",
		)
	}
	was.path, was.lock = s.path, s.lock
	return &was, nil
}

// progressText says how far the present source is read.
func (s *State) progressText() string {
	for _, span := range s.Spans {
		if span.From < span.End {
			return fmt.Sprintf(
				"up to offset %d of %d in topic %s, partition %d", span.From, span.End, span.Topic, span.Partition,
			)
		}
	}
	if s.Key != nil && s.Key.Timestamp != nil {
		return "up to " + *s.Key.Timestamp
	}
	return ""
}

// save replaces the file as a whole: a crash leaves the old state or the new state.
func (s *State) save() error {
	if s.path == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := writeWhole(s.path, append(text, '\n')); err != nil {
		return &fault.Error{
			Kind: fault.Operator, Object: "--resume", Err: fmt.Errorf("the state cannot be written: %w", err),
		}
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
