package consumer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// kafka-go's Metadata requests have no ids of topics, which came with version 10. This request has them, over a
// connection of kafka-go's transport (https://kafka.apache.org/protocol#The_Messages_Metadata).

const (
	apiMetadata, apiVersions = 3, 18
	idVersion                = 10
	mostAnswer               = 64 << 20
)

type idRequest struct{ names []string }

type idResponse struct{ ids map[string]topicID }

// ApiKey implements protocol.Message.
func (*idRequest) ApiKey() protocol.ApiKey { return protocol.Metadata } //nolint:revive // kafka-go's name

// ApiKey implements protocol.Message.
func (*idResponse) ApiKey() protocol.ApiKey { return protocol.Metadata } //nolint:revive // kafka-go's name

// Required implements protocol.RawExchanger.
func (*idRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange implements protocol.RawExchanger: it asks whether the broker knows the version, and then for the topics.
func (r *idRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	answer, err := exchange(rw, []byte{0, apiVersions, 0, 0, 0, 0, 0, 1, 0xff, 0xff})
	if err != nil {
		return nil, err
	}
	knows, err := knowsIDs(answer)
	if err != nil || !knows {
		return &idResponse{}, err
	}
	if answer, err = exchange(rw, r.encode()); err != nil {
		return nil, err
	}
	ids, err := decodeIDs(answer)
	return &idResponse{ids}, err
}

// encode is header version 2 and the body: topics compact array, {id, name, tags}…, create bool, operations bool twice.
func (r *idRequest) encode() []byte {
	b := []byte{0, apiMetadata, 0, idVersion, 0, 0, 0, 1, 0xff, 0xff, 0}
	b = binary.AppendUvarint(b, uint64(len(r.names)+1))
	for _, name := range r.names {
		b = append(b, make([]byte, len(topicID{}))...)
		b = binary.AppendUvarint(b, uint64(len(name)+1))
		b = append(append(b, name...), 0)
	}
	return append(b, 0, 0, 0, 0)
}

// exchange writes a request and returns the answer after its correlation id, which is 1.
func exchange(rw io.ReadWriter, request []byte) ([]byte, error) {
	if _, err := rw.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > mostAnswer || binary.BigEndian.Uint32(head[4:]) != 1 {
		return nil, fmt.Errorf("the broker's answer of %d bytes does not belong to the request", size)
	}
	answer, err := io.ReadAll(io.LimitReader(rw, int64(size)-4)) // grows with what arrives
	if err == nil && len(answer) < int(size)-4 {
		err = io.ErrUnexpectedEOF
	}
	return answer, err
}

// knowsIDs reads an answer to ApiVersions, version 0: code int16, {key, min, max int16}…
func knowsIDs(answer []byte) (bool, error) {
	d := decoder{b: answer}
	if code := d.int16(); code != 0 {
		return false, fmt.Errorf("the broker answers ApiVersions with error %d", code)
	}
	for n := d.int32(); n > 0 && d.ok(); n-- {
		if key, _, most := d.int16(), d.int16(), d.int16(); key == apiMetadata {
			return most >= idVersion, d.err()
		}
	}
	return false, d.err()
}

// decodeIDs reads an answer to Metadata, version 10, with header version 1.
func decodeIDs(answer []byte) (map[string]topicID, error) {
	d := decoder{b: answer}
	d.tags()
	d.int32() // throttle
	for range d.array() {
		d.int32()
		d.text()
		d.int32()
		d.text()
		d.tags()
	}
	d.text() // cluster id
	d.int32()
	ids := map[string]topicID{}
	for range d.array() {
		code, name := d.int16(), d.text()
		id := topicID(append(d.bytes(len(topicID{})), make([]byte, len(topicID{}))...))
		d.bytes(1)
		for range d.array() {
			d.bytes(2 + 4 + 4 + 4)
			for range 3 { // replicas, in sync, offline
				d.bytes(4 * d.length())
			}
			d.tags()
		}
		d.int32()
		d.tags()
		if !d.ok() {
			break
		}
		if code == 0 && id != (topicID{}) {
			ids[name] = id
		}
	}
	return ids, d.err()
}

// decoder reads the protocol's types. After an error everything is empty.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) ok() bool { return !d.bad }

func (d *decoder) err() error {
	if d.bad {
		return errors.New("the broker's answer ends within a field")
	}
	return nil
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int16() int16 {
	if b := d.bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if b := d.bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// length is that of a compact array, string or bytes, 0 for null. Each element takes a byte at least.
func (d *decoder) length() int {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return max(int(n)-1, 0)
}

// array yields as often as the array has elements, while there is something to read.
func (d *decoder) array() func(func(int) bool) {
	return func(yield func(int) bool) {
		for i, n := 0, d.length(); i < n && d.ok() && yield(i); i++ { //nolint:revive // the body is yield
		}
	}
}

func (d *decoder) text() string { return string(d.bytes(d.length())) }

// tags passes over tagged fields, {tag, size uvarint, bytes}… (KIP-482).
func (d *decoder) tags() {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return
	}
	d.b = d.b[size:]
	for ; n > 0 && d.ok(); n-- {
		if _, size = binary.Uvarint(d.b); size <= 0 {
			d.bad, d.b = true, nil
			return
		}
		d.b = d.b[size:]
		length, size := binary.Uvarint(d.b)
		if size <= 0 || length > uint64(len(d.b)) {
			d.bad, d.b = true, nil
			return
		}
		d.b = d.b[size:]
		d.bytes(int(length))
	}
}
