package deadletter

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Columns names the columns that a letter takes its id, key, type and payload from.
type Columns struct{ ID, Key, Type, Payload string }

// Builder makes letters.
type Builder struct {
	Topic   string // of the letters
	Slot    string
	Columns Columns
}

// Case is one row that cannot be published.
type Case struct {
	Relation *pgoutput.Relation
	Tuple    pgoutput.Tuple

	ID string // of the event, if the row does not have it: a logical message that cannot be read

	Record *router.Record // as it should have been published; nil if it could not be made

	Position   []byte    // of the row, as in the header
	CommitTime time.Time // zero: unknown
	Reason     router.Reason
	Detail     string
	Bytes      int // of a record that is too large, and its topic's limit; 0: not about sizes
	Limit      int
}

// Letter returns the letter with everything in it. It keeps nothing of the case; now becomes its timestamp, because the
// topic's retention counts from there.
func (b *Builder) Letter(c *Case, now time.Time) *router.Record {
	l := b.newLetter(c, now)
	l.row(c, b.Columns)
	return l.record()
}

// letter is one under construction.
type letter struct {
	out *router.Record
	cut []string
}

// newLetter fills the headers that all letters have, and the key.
func (b *Builder) newLetter(c *Case, now time.Time) *letter {
	l := &letter{out: &router.Record{Topic: b.Topic, Partition: -1, Timestamp: now.UnixMilli()}}
	id, eventType, key := c.identity(b.Columns)
	l.out.Headers = append(l.out.Headers,
		router.Header{Key: headerID, Value: l.clipped("id", id, maxID)},
		router.Header{Key: headerType, Value: l.clipped("type", eventType, maxID)},
		router.Header{Key: headerPosition, Value: clone(c.Position)},
	)
	if slices.Contains(l.cut, "id") {
		l.add(headerIDHash, fmt.Sprintf("%x", sha256.Sum256(id)))
	}
	l.add(headerReason, string(c.Reason))
	l.add(headerDetail, clipString(c.Detail, maxText))
	l.add(headerTable, clipString(c.Relation.Namespace+"."+c.Relation.Name, maxTable))
	l.add(headerSlot, b.Slot)
	if !c.CommitTime.IsZero() {
		l.add(headerCommitTime, c.CommitTime.UTC().Format(time.RFC3339Nano))
	}
	if c.Record != nil {
		l.add(headerTopic, clipString(c.Record.Topic, maxText))
		l.add(headerTimestamp, strconv.FormatInt(c.Record.Timestamp, 10))
	}
	switch {
	case key == nil:
		l.add(headerKey, keyAbsent)
	case len(key) > maxKey:
		l.add(headerKey, keyCut)
		l.cut = append(l.cut, "key")
	default:
		l.add(headerKey, keyPresent)
		l.out.Key = clone(key)
	}
	if c.Bytes > 0 {
		l.add(headerBytes, strconv.Itoa(c.Bytes))
	}
	if c.Limit > 0 {
		l.add(headerLimit, strconv.Itoa(c.Limit))
	}
	return l
}

func (l *letter) add(name, value string) {
	if value != "" {
		l.out.Headers = append(l.out.Headers, router.Header{Key: name, Value: []byte(value)})
	}
}

// clipped keeps nil, which stands for NULL.
func (l *letter) clipped(what string, text []byte, limit int) []byte {
	out, cut := clip(text, limit)
	if cut {
		l.cut = append(l.cut, what)
		return out
	}
	return clone(text)
}

// clone keeps the difference between nil, which is NULL, and empty.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

func (l *letter) record() *router.Record {
	l.add(headerCut, strings.Join(l.cut, ","))
	return l.out
}

// row keeps the row: the payload as the value, the rest as a header.
func (l *letter) row(c *Case, columns Columns) {
	l.add(headerLetter, string(KindRow))
	row, value := newRow(c.Relation, c.Tuple, columns.Payload)
	l.out.Value = value
	text, err := json.Marshal(row)
	if err != nil || len(text) > 2*maxRow { // escapes can double it; a row that grows further is left to the table
		row = &Row{
			OID: row.OID, Schema: clipString(row.Schema, maxTable), Table: clipString(row.Table, maxTable),
			Incomplete: true,
		}
		text, _ = json.Marshal(row) // two strings and a flag: cannot fail
	}
	if !row.Complete() {
		l.cut = append(l.cut, "row")
	}
	l.out.Headers = append(l.out.Headers, router.Header{Key: headerRow, Value: text})
}

// identity returns id, type and key, each nil if it is NULL or absent.
func (c *Case) identity(columns Columns) (id, eventType, key []byte) {
	if id = c.column(columns.ID); id == nil && c.ID != "" {
		id = []byte(c.ID)
	}
	return id, c.column(columns.Type), c.column(columns.Key)
}

func (c *Case) column(name string) []byte {
	if name == "" {
		return nil
	}
	i := c.Relation.Column(name)
	if i < 0 || i >= len(c.Tuple) {
		return nil
	}
	switch v := c.Tuple[i]; v.Kind {
	case pgoutput.Text:
		if v.Data == nil {
			return []byte{}
		}
		return v.Data
	default:
		return nil
	}
}
