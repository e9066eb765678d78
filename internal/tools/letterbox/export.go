package letterbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// Export counts the contents of a file.
type Export struct {
	Letters, Records int64
	Partial          int64 // letters that do not hold everything: a retry needs the table, or the record's origin
}

// exporter writes lines and their checksum.
type exporter struct {
	out     *bufio.Writer
	sum     hash.Hash
	records int64
}

func (x *exporter) write(v any) error {
	b, err := encode(v)
	if err == nil {
		_, _ = x.sum.Write(b) // never fails
		_, err = x.out.Write(b)
	}
	if err != nil {
		return unwritten(err)
	}
	return nil
}

// Export writes the chosen letters of the box with their marks: a second pass over the topic, up to the end of the
// first, so that memory holds no payload.
func (b *Box) Export(
	ctx context.Context, w io.Writer, chosen []*deadletter.Entry, report progress.Reporter,
) (Export, error) {
	x := &exporter{out: bufio.NewWriter(w), sum: sha256.New()}
	var done Export
	if err := x.write(header{Format: format, Topic: b.Topic, Written: time.Now().UTC()}); err != nil {
		return done, err
	}
	wanted := make(map[*deadletter.Entry]bool, len(chosen)) // true: not written yet
	for _, e := range chosen {
		wanted[e] = true
		if len(e.Cut) > 0 || e.Kind == deadletter.KindPointer {
			done.Partial++
		}
	}
	spans, err := b.reader.Spans(ctx, b.Topic)
	if err != nil {
		return done, err
	}
	for _, s := range spans {
		s.End = b.ends[s.Partition]
		for m, err := range b.reader.Messages(ctx, s) {
			if err != nil {
				return done, err
			}
			r := recordOf(m)
			e := b.Ledger.Of(r)
			first, ok := wanted[e]
			if !ok {
				continue
			}
			if err := x.write(lineOf(r)); err != nil {
				return done, err
			}
			x.records++
			if first && !deadletter.IsMark(r.Headers) {
				wanted[e] = false
				done.Letters++
				report.Step(progress.Step{
					What: "topic " + b.Topic, Done: done.Letters, Total: int64(len(chosen)), Unit: "dead letters",
				})
			}
		}
	}
	if missing := int64(len(chosen)) - done.Letters; missing > 0 {
		return done, &fault.Error{
			Kind: fault.Retry, Object: "topic " + b.Topic, Next: "Run the command again for the others.",
			Err: errors.New("the topic's retention has deleted " +
				human.Counted(missing, "dead letter", "dead letters") + " meanwhile"),
		}
	}
	done.Records = x.records
	err = x.write(trailer{Records: x.records, Letters: done.Letters, SHA256: hex.EncodeToString(x.sum.Sum(nil))})
	if err != nil {
		return done, err
	}
	if err := x.out.Flush(); err != nil {
		return done, unwritten(err)
	}
	return done, nil
}

// Chosen lists the letters that the filter chooses.
func (b *Box) Chosen(f *deadletter.Filter, open bool, now time.Time) []*deadletter.Entry {
	chosen := []*deadletter.Entry{}
	for _, e := range b.Entries() {
		if f.Chooses(e, now) && (!open || e.IsOpen()) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// unwritten is the error of a file that cannot be written.
func unwritten(err error) error {
	return &fault.Error{
		Kind: fault.Operator, Object: "dead-letter export", Err: fmt.Errorf("writing failed: %w", err),
		Next: "Make room, or write somewhere else, and run it again.",
	}
}
