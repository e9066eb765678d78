package letterbox

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Retention returns findings if the topic may delete open letters. A user who may not ask gets no findings.
func (b *Box) Retention(ctx context.Context) ([]preflight.Finding, error) {
	if b.file != nil {
		return nil, nil
	}
	keeps, err := b.reader.Retention(ctx, b.Topic)
	if err != nil {
		return nil, err
	}
	return judge(b.Topic, b.reader.Names().Broker, keeps, b.Ledger.Entries(), time.Now()), nil
}

// judge compares the oldest open letter with the retention. A broker deletes never before its time, and often later. A
// warning that comes at half the time leaves the other half to act.
func judge(
	topic, broker string, keeps sink.Retention, entries []*deadletter.Entry, now time.Time,
) []preflight.Finding {
	var oldest time.Time
	open := int64(0)
	for _, e := range entries {
		if !e.IsOpen() {
			continue
		}
		if open++; oldest.IsZero() || e.Written.Before(oldest) {
			oldest = e.Written
		}
	}
	if open == 0 {
		return nil
	}
	var found []preflight.Finding
	warn := func(what, why string, remedy fault.Remedy) {
		f := preflight.Finding{Level: preflight.Warn, Subject: keeps.Object, Found: what, Why: why}
		found = append(found, f.With(remedy))
	}
	letters := human.Counted(open, "open dead letter", "open dead letters")
	if keeps.Compacted {
		warn("It is compacted, and holds "+letters+".", "Of letters with one key "+broker+" keeps only the last.",
			fault.Do("Let it delete by age alone.", keeps.KeepKeys))
	}
	export := "cdc-outbox dead-letter export --in " + topic + " --open --to " + topic + ".jsonl"
	if age := now.Sub(oldest); keeps.Age > 0 && age >= keeps.Age/2 {
		when := "In " + human.Duration(max(keeps.Age-age, time.Second)) + " " + broker + " begins to delete them."
		if age >= keeps.Age {
			when = broker + " may delete them at any time."
		}
		warn(fmt.Sprintf("It keeps records for %s, and the oldest of %s is %s old.", human.Duration(keeps.Age), letters,
			human.Duration(age)), when+" A deleted letter can be neither shown nor retried.",
			fault.Do("Keep the letters until they are decided, or in a file as well.", keeps.KeepAge, export))
	}
	if keeps.Bytes > 0 {
		of := ""
		if keeps.Partition {
			of = " of a partition"
		}
		warn(fmt.Sprintf("It keeps at most about %s%s, and holds %s.", human.Bytes(keeps.Bytes), of, letters),
			broker+" deletes the oldest letters when there are too many.",
			fault.Do("Keep the letters until they are decided, or in a file as well.", keeps.KeepBytes, export))
	}
	if keeps.Messages > 0 {
		warn(fmt.Sprintf("It keeps at most %s, and holds %s.", human.Counted(keeps.Messages, "message", "messages"),
			letters), broker+" deletes the oldest letters when there are too many.",
			fault.Do("Keep the letters until they are decided, or in a file as well.", keeps.KeepMessages, export))
	}
	return found
}
