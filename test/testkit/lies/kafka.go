package lies

import (
	"encoding/binary"
	"math"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// headSize is that of a response: size and correlation id.
const headSize = 8

// Hostile is a text that a terminal or a page must not get as it is.
const Hostile = "\x1b]0;owned\a\x1b[2J\u009b31m\u202e<script>alert(1)</script>"

// Kafka lists what a broker may do with an answer.
func Kafka() []Kind {
	long := strings.Repeat(Hostile, 30000/len(Hostile))
	return append(raw(0, 4, headSize),
		Kind{"another's answer", func(a proxy.Answer, _ int, send func([]byte) error) error {
			frame := append([]byte(nil), a.Frame...)
			frame[headSize-1]++
			return send(frame)
		}},
		changed("throttled for ever", func(name string, v reflect.Value) {
			if name == "ThrottleMillis" {
				v.SetInt(math.MaxInt32)
			}
		}),
		changed("an error that is not known", func(name string, v reflect.Value) {
			if name == "ErrorCode" {
				v.SetInt(9999)
			}
		}),
		// A broker that was of another cluster is refused until the process is restarted, so that one stays.
		changed("terminal control", func(name string, v reflect.Value) {
			if v.Kind() == reflect.String && name != "ClusterID" {
				v.SetString(long)
			}
		}),
		changed("largest numbers", func(name string, v reflect.Value) {
			if v.CanInt() && name != "ErrorCode" {
				v.SetInt(math.MaxInt64 >> (64 - v.Type().Bits()))
			}
		}),
		changed("negative numbers", func(name string, v reflect.Value) {
			if v.CanInt() && name != "ErrorCode" {
				v.SetInt(-2)
			}
		}),
		changed("empty lists", func(_ string, v reflect.Value) {
			if v.Kind() == reflect.Slice {
				v.SetZero()
			}
		}),
		changed("endless lists", func(_ string, v reflect.Value) {
			if v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
				n := 2000
				if v.Type().Elem().Kind() == reflect.Struct {
					n = 30 // they may have lists of their own
				}
				many := reflect.MakeSlice(v.Type(), 0, n)
				for i := range n {
					many = reflect.Append(many, v.Index(i%v.Len()))
				}
				v.Set(many)
			}
		}),
	)
}

// changed is a lie in the form of an answer: each field may be changed. Answers that cannot be read pass as they are.
func changed(name string, change func(name string, v reflect.Value)) Kind {
	return Kind{name, func(a proxy.Answer, _ int, send func([]byte) error) error {
		answer := kmsg.ResponseForKey(a.Key)
		if answer == nil {
			return send(a.Frame)
		}
		answer.SetVersion(a.Version)
		body := kbin.Reader{Src: a.Frame[headSize:]}
		flexible := answer.IsFlexible() && a.Key != kmsg.NewPtrApiVersionsResponse().Key()
		if flexible {
			kmsg.SkipTags(&body)
		}
		if !body.Ok() || answer.ReadFrom(body.Src) != nil {
			return send(a.Frame)
		}
		walk("", reflect.ValueOf(answer).Elem(), change)
		frame := append([]byte(nil), a.Frame[:headSize]...)
		if flexible {
			frame = append(frame, 0)
		}
		frame = answer.AppendTo(frame)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return send(frame)
	}}
}

func walk(name string, v reflect.Value, change func(name string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(name, v.Elem(), change)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			walk(name, v.Index(i), change)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" && f.Name != "UnknownTags" {
				walk(f.Name, v.Field(i), change)
			}
		}
		return
	}
	if v.CanSet() {
		change(name, v)
	}
}
