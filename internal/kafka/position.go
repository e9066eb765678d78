package kafka

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// Stored is a position as a committed transaction left it.
type Stored struct {
	Position
	SystemID string // of the Postgres cluster
	Instance string // who wrote it
}

// metadata is the JSON that is committed with a transaction. The number makes it unlike any other.
func (x *transactions) metadata(pos Position) string {
	text, _ := json.Marshal(storedJSON{ // strings and numbers: cannot fail
		System: x.claim.SystemID, Timeline: pos.Timeline, Commit: fmt.Sprintf("%016x", pos.Commit), Index: pos.Index,
		Instance: x.cfg.Instance, Transaction: x.count,
	})
	return string(text)
}

type storedJSON struct {
	System      string `json:"system"`
	Timeline    int32  `json:"timeline"`
	Commit      string `json:"commit"` // hexadecimal: JSON readers round large numbers
	Index       uint32 `json:"index"`
	Instance    string `json:"instance"`
	Transaction uint64 `json:"transaction"`
}

func parseStored(text string) (Stored, error) {
	var j storedJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return Stored{}, err
	}
	commit, err := strconv.ParseUint(j.Commit, 16, 64)
	if err != nil {
		return Stored{}, err
	}
	return Stored{
		Position: Position{Timeline: j.Timeline, Commit: commit, Index: j.Index},
		SystemID: j.System, Instance: j.Instance,
	}, nil
}

// offsetFetchVersion is the first with require_stable (KIP-447, Kafka 2.5): without it the coordinator answers with the
// offset before a transaction whose commit marker it has not worked off yet, and records would be sent again.
// kafka-go's package ends at version 5, so this request is written here.
const offsetFetchVersion = 7

// fetchOffset returns the metadata of the group's offset for partition 0 of the topic, and the error code.
func (w *wire) fetchOffset(group, topic string, timeout time.Duration) (metadata string, code int16, err error) {
	if err := w.renew(timeout); err != nil {
		return "", 0, err
	}
	be := binary.BigEndian
	id := w.nextID()
	req := be.AppendUint32(nil, 0)
	req = be.AppendUint16(req, uint16(protocol.OffsetFetch))
	req = be.AppendUint16(req, offsetFetchVersion)
	req = be.AppendUint32(req, uint32(id))
	req = appendString(req, w.clientID)
	req = append(req, 0) // tagged fields of the header
	req = appendCompact(req, group)
	req = append(req, 1+1) // topics
	req = appendCompact(req, topic)
	req = append(req, 1+1, 0, 0, 0, 0) // partition indexes: [0]
	req = append(req, 0, 1, 0)         // tagged fields of the topic, require_stable, tagged fields
	be.PutUint32(req, uint32(len(req)-4))

	if err := w.nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", 0, err
	}
	if _, err := w.nc.Write(req); err != nil {
		return "", 0, fmt.Errorf("send OffsetFetch to %s: %w", w.addr, err)
	}
	var size [4]byte
	if _, err := io.ReadFull(w.br, size[:]); err != nil {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: %w", w.addr, noEOF(err))
	}
	n := be.Uint32(size[:])
	if n > maxResponse {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: frame of %d bytes", w.addr, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(w.br, body); err != nil {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: %w", w.addr, noEOF(err))
	}
	metadata, code, err = parseOffsetFetch(body, id)
	if err != nil {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: %w", w.addr, err)
	}
	return metadata, code, w.nc.SetDeadline(time.Time{})
}

// parseOffsetFetch reads a version 7 answer about one partition.
func parseOffsetFetch(body []byte, id int32) (metadata string, code int16, err error) {
	r := compactReader{b: body}
	if got := int32(r.uint32()); got != id {
		return "", 0, fmt.Errorf("answer %d where answer %d was due", got, id)
	}
	r.tags()
	r.uint32() // throttle time
	for range r.length() {
		r.string()
		for range r.length() {
			r.uint32() // index
			offset := int64(r.uint64())
			r.uint32() // leader epoch
			text := r.string()
			if c := int16(r.uint16()); c != 0 {
				code = c
			}
			r.tags()
			if offset >= 0 {
				metadata = text
			}
		}
		r.tags()
	}
	if c := int16(r.uint16()); c != 0 {
		code = c
	}
	if r.bad {
		return "", 0, errMalformed
	}
	return metadata, code, nil
}

var errMalformed = errors.New("malformed answer")

func appendCompact(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	return append(dst, s...)
}

// compactReader reads the flexible encoding (KIP-482). After an error it yields zeros and is bad.
type compactReader struct {
	b   []byte
	bad bool
}

func (r *compactReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return make([]byte, min(n, 8))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *compactReader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *compactReader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *compactReader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *compactReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length is that of an array; an absurd one is malformed.
func (r *compactReader) length() int {
	n := r.uvarint()
	if n > uint64(len(r.b))+1 {
		r.bad, r.b = true, nil
		return 0
	}
	return max(int(n)-1, 0)
}

func (r *compactReader) string() string {
	n := r.uvarint()
	if n <= 1 { // null or empty
		return ""
	}
	if n-1 > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	return string(r.take(n - 1))
}

func (r *compactReader) tags() {
	for range r.tagCount() {
		r.uvarint()
		r.take(r.uvarint())
	}
}

// tagCount is the count of tagged fields, which is not shifted by one.
func (r *compactReader) tagCount() int {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}
