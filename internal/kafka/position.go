package kafka

import (
	"encoding/binary"
	"encoding/json"
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
	r := cursor{b: body}
	if got := r.int32(); got != id {
		return "", 0, fmt.Errorf("answer %d where answer %d was due", got, id)
	}
	r.tags()
	r.int32() // throttle time
	for range r.compactLength() {
		r.compactString()
		for range r.compactLength() {
			r.int32() // index
			offset := r.int64()
			r.int32() // leader epoch
			text := r.compactString()
			if c := r.int16(); c != 0 {
				code = c
			}
			r.tags()
			if offset >= 0 {
				metadata = text
			}
		}
		r.tags()
	}
	if c := r.int16(); c != 0 {
		code = c
	}
	if err := r.err(); err != nil {
		return "", 0, err
	}
	return metadata, code, nil
}

func appendCompact(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	return append(dst, s...)
}
