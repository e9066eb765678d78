package pgoutput

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

	"github.com/stretchr/testify/require"
)

const goldenDir = "../testdata/pgoutput"

// TestGoldenTranscripts decodes what real servers sent: NAME.bin holds CopyData messages as on the wire, NAME.txt
// says what is in them. With -update the transcripts are recorded again (golden_record_test.go).
func TestGoldenTranscripts(t *testing.T) {
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(goldenDir, name+".txt"))
			require.NoError(t, err)
			require.Equal(t, string(want), describe(t, goldenMessages(t, name)))
		})
	}
}

// TestGoldenEveryPrefixIsAnError cuts each recorded message at each byte: no cut may panic, none may be mistaken for a
// message, and neither may a message with a byte too many.
//
// Bug (stream): A truncated message made the decoder panic. Cost: crash loop.
func TestGoldenEveryPrefixIsAnError(t *testing.T) {
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			for i, msg := range goldenMessages(t, name) {
				for n := range msg.data {
					cut := Decoder{relations: d.relations}
					err := cut.Decode(new(Message), msg.lsn, msg.data[:n:n])
					require.Error(t, err, "message %d, %d of %d bytes", i, n, len(msg.data))
					var at *DecodeError
					require.ErrorAs(t, err, &at)
					require.LessOrEqual(t, at.Offset, n)
					require.Equal(t, msg.lsn, at.LSN)
				}
				long := Decoder{relations: map[uint32]*Relation{}}
				for oid, rel := range d.relations {
					long.relations[oid] = rel
				}
				require.ErrorContains(t, long.Decode(new(Message), msg.lsn, append(bytes.Clone(msg.data), 0)),
					"1 bytes left over")
				require.NoError(t, d.Decode(new(Message), msg.lsn, msg.data))
			}
		})
	}
}

type goldenMessage struct {
	lsn  lsn.LSN
	data []byte
}

func goldenNames(t testing.TB) []string {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".bin")
	}
	return files
}

func readGolden(t testing.TB, name string) []byte {
	raw, err := os.ReadFile(filepath.Join(goldenDir, name+".bin"))
	require.NoError(t, err)
	return raw
}

// goldenMessages cuts a transcript into XLogData messages, without using the code under test.
func goldenMessages(t testing.TB, name string) []goldenMessage {
	var list []goldenMessage
	for raw := readGolden(t, name); len(raw) > 0; {
		require.Equal(t, byte('d'), raw[0])
		n := 1 + int(binary.BigEndian.Uint32(raw[1:]))
		require.Equal(t, byte('w'), raw[5])
		list = append(list, goldenMessage{lsn.LSN(binary.BigEndian.Uint64(raw[6:])), raw[5+25 : n]})
		raw = raw[n:]
	}
	return list
}

// describe decodes messages and writes each as a line or, where it has columns, as several.
func describe(t testing.TB, messages []goldenMessage) string {
	var d Decoder
	var b strings.Builder
	for _, msg := range messages {
		var m Message
		require.NoError(t, d.Decode(&m, msg.lsn, msg.data))
		describeMessage(&b, &m)
	}
	return b.String()
}

func describeMessage(b *strings.Builder, m *Message) {
	fmt.Fprintf(b, "%s ", m.WALStart)
	switch m.Kind {
	case KindBegin:
		fmt.Fprintf(b, "begin commit=%s xid=%d time=%s\n", m.Begin.CommitLSN, m.Begin.XID,
			m.Begin.CommitTime.Format(time.RFC3339Nano))
	case KindCommit:
		fmt.Fprintf(b, "commit commit=%s end=%s time=%s\n", m.Commit.CommitLSN, m.Commit.EndLSN,
			m.Commit.CommitTime.Format(time.RFC3339Nano))
	case KindRelation:
		fmt.Fprintf(b, "relation %d %q.%q\n", m.Relation.OID, m.Relation.Namespace, m.Relation.Name)
		for _, c := range m.Relation.Columns {
			fmt.Fprintf(b, "\t%q type=%d modifier=%d key=%t\n", c.Name, c.TypeOID, c.Modifier, c.Key)
		}
	case KindInsert, KindUpdate, KindDelete:
		fmt.Fprintf(b, "%s %q.%q\n", map[Kind]string{
			KindInsert: "insert", KindUpdate: "update", KindDelete: "delete",
		}[m.Kind], m.Relation.Namespace, m.Relation.Name)
		for i, v := range m.Tuple {
			describeValue(b, m.Relation.Columns[i].Name, v)
		}
	case KindTruncate:
		fmt.Fprintf(b, "truncate relations=%d\n", len(m.Truncated))
	case KindLogicalMessage:
		fmt.Fprintf(b, "message transactional=%t lsn=%s prefix=%q content=%q\n", m.Logical.Transactional, m.Logical.LSN,
			m.Logical.Prefix, m.Logical.Content)
	case KindOrigin:
		b.WriteString("origin\n")
	case KindType:
		b.WriteString("type\n")
	default:
		fmt.Fprintf(b, "kind %d\n", m.Kind)
	}
}

func describeValue(b *strings.Builder, name string, v Value) {
	switch {
	case v.Data == nil:
		fmt.Fprintf(b, "\t%q %c\n", name, v.Kind)
	case len(v.Data) > 200:
		fmt.Fprintf(b, "\t%q %c %d bytes %q…\n", name, v.Kind, len(v.Data), v.Data[:40])
	default:
		fmt.Fprintf(b, "\t%q %c %q\n", name, v.Kind, v.Data)
	}
}
