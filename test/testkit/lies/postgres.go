package lies

import (
	"encoding/binary"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// Postgres lists what a server may do with a message.
func Postgres() []Kind {
	before := func(name string, flood []byte) Kind {
		return Kind{name, func(_ proxy.Answer, _ int, send func([]byte) error) error { return again(flood, send) }}
	}
	long := strings.Repeat(Hostile, 30000/len(Hostile))
	return append(raw(1, 1, 5),
		before("endless notices", report('N', "NOTICE", "01000", "n")),
		before("endless parameters", message('S', "application_name\x00x\x00")),
		before("endless notifications", message('A', "\x00\x00\x00\x01c\x00p\x00")),
		before("endless keepalives", message('d', "k"+strings.Repeat("\x00", 17))),
		Kind{"an error for a terminal", func(_ proxy.Answer, n int, send func([]byte) error) error {
			codes := []string{"57P01", "XX000", "42501", long}
			return send(report('E', "ERROR", codes[n%len(codes)], long))
		}},
		Kind{"a type that is not known", func(a proxy.Answer, n int, send func([]byte) error) error {
			frame := append([]byte(nil), a.Frame...)
			frame[0] = byte(n)
			return send(frame)
		}},
	)
}

func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

func report(kind byte, severity, code, text string) []byte {
	return message(kind, "S"+severity+"\x00V"+severity+"\x00C"+code+"\x00M"+text+"\x00\x00")
}
