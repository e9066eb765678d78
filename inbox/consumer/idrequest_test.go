package consumer

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

// peer answers with what it was given, whatever it is asked.
type peer struct {
	io.Reader
	asked bytes.Buffer
}

func (p *peer) Write(b []byte) (int, error) { return p.asked.Write(b) }

func framed(answers ...[]byte) []byte {
	var all []byte
	for _, a := range answers {
		all = binary.BigEndian.AppendUint32(all, uint32(len(a)+4))
		all = append(append(all, 0, 0, 0, 1), a...)
	}
	return all
}

// versions is an answer to ApiVersions in which Metadata is known up to the version.
func versions(most byte) []byte {
	return []byte{0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 9, 0, 3, 0, 0, 0, most}
}

// described is an answer to Metadata with a broker, a topic "a" with a partition, and a topic that does not exist.
func described() []byte {
	b := []byte{0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 'h', 0, 0, 35, 132, 0, 0, 2, 'c', 0, 0, 0, 1, 3}
	b = append(b, 0, 0, 2, 'a')
	b = append(b, bytes.Repeat([]byte{7}, 16)...)
	b = append(b, 0, 2)
	b = append(append(b, make([]byte, 14)...), 2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 0)
	b = append(b, 0, 0, 0, 0, 1, 5, 2, 'x', 'y')
	b = append(b, 0, 3, 2, 'b')
	b = append(b, make([]byte, 16)...)
	return append(b, 0, 1, 0, 0, 0, 0, 0)
}

func ask(answer []byte) (map[string]topicID, error) {
	p := &peer{Reader: bytes.NewReader(answer)}
	got, err := (&idRequest{names: []string{"a", "b"}}).RawExchange(p)
	if err != nil {
		return nil, err
	}
	return got.(*idResponse).ids, nil
}

func TestTopicIDs(t *testing.T) {
	ids, err := ask(framed(versions(12), described()))
	if err != nil || len(ids) != 1 || ids["a"] != topicID(bytes.Repeat([]byte{7}, 16)) {
		t.Fatalf("%v, %v", ids, err)
	}
	if got := parseStored(ids["a"].stored()); got != ids["a"] {
		t.Fatalf("%x after it was stored", got)
	}
	for _, other := range []string{"", "topic-id=", "topic-id=zz", "of another consumer, as long as an id is"} {
		if got := parseStored(other); got != (topicID{}) {
			t.Fatalf("%x of %q", got, other)
		}
	}
	if ids, err = ask(framed(versions(9))); err != nil || len(ids) != 0 {
		t.Fatalf("an older broker: %v, %v", ids, err)
	}
	whole := framed(versions(12), described())
	for n := range whole {
		if _, err := ask(whole[:n]); err == nil && n < len(whole) {
			t.Fatalf("%d of %d bytes are taken for an answer", n, len(whole))
		}
	}
}

// FuzzTopicIDs: no answer of a broker does harm, and none takes more memory than it has bytes.
func FuzzTopicIDs(f *testing.F) {
	f.Add(framed(versions(12), described()))
	f.Add(framed(versions(9)))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, answer []byte) {
		ids, err := ask(answer)
		if err == nil && len(ids) > len(answer)/20 {
			t.Fatalf("%d topics in %d bytes", len(ids), len(answer))
		}
	})
}
