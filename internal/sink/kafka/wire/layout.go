package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
	"github.com/segmentio/kafka-go/protocol/listgroups"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// answers are the answers that Judge knows. An answer that is not in this list is refused.
var answers = func() map[protocol.ApiKey]reflect.Type {
	types := map[protocol.ApiKey]reflect.Type{}
	for _, m := range []protocol.Message{
		&addoffsetstotxn.Response{}, &addpartitionstotxn.Response{}, &apiversions.Response{},
		&createtopics.Response{}, &describeconfigs.Response{}, &endtxn.Response{}, &findcoordinator.Response{},
		&heartbeat.Response{}, &initproducerid.Response{}, &joingroup.Response{},
		&leavegroup.Response{}, &listgroups.Response{}, &listoffsets.Response{}, &metadata.Response{},
		&offsetcommit.Response{},
		&offsetfetch.Response{}, &produce.Response{}, &saslauthenticate.Response{}, &saslhandshake.Response{},
		&syncgroup.Response{}, &txnoffsetcommit.Response{},
	} {
		types[m.ApiKey()] = reflect.TypeOf(m).Elem()
	}
	return types
}()

// layout is how a value lies in an answer of one version.
type layout struct {
	kind   reflect.Kind
	size   int      // of a number
	fields []layout // of a struct
	elem   *layout  // of an array; nil for bytes
	memory int64    // that a decoded value takes, without what it points to
}

// layoutOf reads the layout out of the types of kafka-go's decoder, whose tags say which version has which field.
func layoutOf(t reflect.Type, version int16) layout {
	l := layout{kind: t.Kind(), memory: int64(t.Size())}
	switch l.kind {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if present, _ := inVersion(f.Tag.Get("kafka"), version); present && f.Name != "_" {
				l.fields = append(l.fields, layoutOf(f.Type, version))
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			elem := layoutOf(t.Elem(), version)
			l.elem = &elem
		}
	case reflect.String:
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float64:
		l.size = int(t.Size())
	default:
		panic("no layout for " + t.String())
	}
	return l
}

// flexible reports whether the version has compact lengths and tagged fields (KIP-482): an empty field says so.
func flexible(t reflect.Type, version int16) bool {
	for i := range t.NumField() {
		if present, tagged := inVersion(t.Field(i).Tag.Get("kafka"), version); present && tagged {
			return true
		}
	}
	return false
}

// inVersion reads a tag such as "min=v0,max=v2|min=v3,max=v3,compact".
func inVersion(tag string, version int16) (present, tagged bool) {
	for alternative := range strings.SplitSeq(tag, "|") {
		least, most, isTag := -1, -1, false
		for option := range strings.SplitSeq(alternative, ",") {
			name, value, _ := strings.Cut(option, "=")
			switch name {
			case "min":
				least, _ = strconv.Atoi(strings.TrimPrefix(value, "v"))
			case "max":
				most, _ = strconv.Atoi(strings.TrimPrefix(value, "v"))
			case "tag":
				isTag = true
			}
		}
		if least <= int(version) && int(version) <= most {
			return true, isTag
		}
	}
	return false, false
}

// judgement walks through an answer before it is decoded.
type judgement struct {
	Cursor
	flexible bool
	memory   int64 // that the decoded values take
}

// Judge refuses an answer that kafka-go's decoder must not see. The decoder makes room for whatever a length field
// says, and counts to whatever number of tagged fields is given. So each length has to be within the bytes that are
// left, and what all values take within MaxDecoded. The body begins after the correlation id.
func Judge(body []byte, key protocol.ApiKey, version int16) error {
	t, ok := answers[key]
	if !ok || version < key.MinVersion() || version > key.MaxVersion() {
		return DataError(fmt.Sprintf("version %d is not read", version))
	}
	j := &judgement{Cursor: NewCursor(body), flexible: flexible(t, version)}
	if j.flexible {
		j.tags() // of the header
	}
	l := layoutOf(t, version)
	j.value(&l)
	if j.memory > MaxDecoded {
		return DataError(fmt.Sprintf("%d bytes that expand to more than %d", len(body), MaxDecoded))
	}
	return j.Err()
}

func (j *judgement) value(l *layout) {
	switch l.kind {
	case reflect.Struct:
		for i := range l.fields {
			j.value(&l.fields[i])
		}
		if j.flexible {
			j.tags()
		}
	case reflect.Slice:
		n := j.length(4)
		if l.elem == nil {
			j.data(n)
			return
		}
		if j.memory += int64(n) * l.elem.memory; j.memory > MaxDecoded {
			j.Bad, j.B = true, nil
		}
		for ; n > 0 && !j.Bad; n-- {
			j.value(l.elem)
		}
	case reflect.String:
		j.data(j.length(2))
	default:
		j.Bytes(l.size)
	}
}

func (j *judgement) data(n int) {
	j.memory += int64(n)
	j.Bytes(n)
}

// length reads how many elements or bytes follow, 0 for null. Each takes a byte at least.
func (j *judgement) length(size int) int {
	n := 0
	switch {
	case j.flexible:
		return j.compactLength()
	case size == 2:
		n = int(j.Int16())
	default:
		n = int(j.Int32())
	}
	if n < -1 || n > j.Left() {
		j.Bad, j.B = true, nil
		return 0
	}
	return max(n, 0)
}
