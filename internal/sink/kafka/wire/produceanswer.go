package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/segmentio/kafka-go/protocol"
)

// ProduceAnswer is an answer to a Produce request. kafka-go's decoder makes slices and strings for each partition by
// reflection; here an answer for thousands of partitions is one slice, used again for the next answer.
type ProduceAnswer struct {
	Topics   []AnsweredTopic // in the broker's order
	Throttle time.Duration

	partitions []AnsweredPartition
	frame      []byte
}

// AnsweredTopic is a topic of a ProduceAnswer. The name lies in the answer, and is valid until the next one.
type AnsweredTopic struct {
	Name       []byte
	Partitions []AnsweredPartition
}

// AnsweredPartition is the outcome of the batch of a partition.
type AnsweredPartition struct {
	Index      int32
	Code       int16
	BaseOffset int64
	Message    []byte // of the broker about an error, the first record's before the batch's; lies in the answer
}

// The versions of a Produce answer that Decode reads. Kafka 3 has removed none of them, 9 is flexible (KIP-482).
const (
	minProduceAnswer = 3
	maxProduceAnswer = 8
)

// maxFrameKept is the largest frame whose memory is kept for the next answer.
const maxFrameKept = 1 << 20

// ReadProduceAnswer reads the answer with the given correlation id to a Produce request into a.
func (w *Conn) ReadProduceAnswer(a *ProduceAnswer, version int16, id int32) error {
	size, err := w.header(id)
	if err != nil {
		return err
	}
	if _, err := w.Reader.Discard(8); err != nil {
		return NoEOF(err)
	}
	if cap(a.frame) > maxFrameKept {
		a.frame = nil
	}
	if a.frame, err = ReadFull(w.Reader, a.frame, int(size)-4); err != nil {
		return err
	}
	if err := a.decode(a.frame, version); err != nil {
		return fmt.Errorf("malformed %s answer: %w", protocol.Produce, err)
	}
	return nil
}

// decode takes the body of an answer apart (https://kafka.apache.org/protocol#The_Messages_Produce):
//
//	topics int32, {name string · partitions int32, {index int32 · code int16 · base_offset int64 ·
//	log_append_time int64 · log_start_offset int64 (5) · record_errors int32, {batch_index int32 ·
//	message nullable string}… (8) · message nullable string (8)}…}… · throttle_ms int32
func (a *ProduceAnswer) decode(body []byte, version int16) error {
	if version < minProduceAnswer || version > maxProduceAnswer {
		return fmt.Errorf("version %d", version)
	}
	c := NewCursor(body)
	a.Topics, a.partitions = a.Topics[:0], a.partitions[:0]
	for n := c.Int32(); n > 0 && !c.Bad; n-- {
		name := c.Bytes(int(c.Int16()))
		from := len(a.partitions)
		for n := c.Int32(); n > 0 && !c.Bad; n-- {
			a.partitions = append(a.partitions, c.answeredPartition(version))
		}
		// Growing the slice leaves the partitions of earlier topics where they were: nothing writes to them again.
		a.Topics = append(a.Topics, AnsweredTopic{name, a.partitions[from:]})
	}
	a.Throttle = time.Duration(c.Int32()) * time.Millisecond
	return c.Err()
}

func (c *Cursor) answeredPartition(version int16) AnsweredPartition {
	n := 22
	if version >= 5 {
		n = 30
	}
	b := c.Bytes(n)
	if b == nil {
		return AnsweredPartition{}
	}
	be := binary.BigEndian
	p := AnsweredPartition{
		Index: int32(be.Uint32(b)), Code: int16(be.Uint16(b[4:])), BaseOffset: int64(be.Uint64(b[6:])),
	}
	if version >= 8 {
		for n := c.Int32(); n > 0 && !c.Bad; n-- {
			c.Int32()
			p.notice(c.nullableString())
		}
		p.notice(c.nullableString())
	}
	return p
}

func (p *AnsweredPartition) notice(message []byte) {
	if len(p.Message) == 0 {
		p.Message = message
	}
}

// mostWords bounds the broker's message that is kept.
const mostWords = 300

// Words is the broker's message about an error, empty for none: bounded, and without what a terminal would act on.
func (p *AnsweredPartition) Words() string {
	if p.Code == 0 || len(p.Message) == 0 {
		return ""
	}
	words := strings.ToValidUTF8(string(p.Message[:min(len(p.Message), mostWords)]), "")
	return strings.TrimSpace(fault.Printable(words))
}

// nullableString is a string of the older encoding, -1 for null.
func (c *Cursor) nullableString() []byte {
	if n := c.Int16(); n != -1 {
		return c.Bytes(int(n))
	}
	return nil
}
