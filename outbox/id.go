package outbox

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // of UUIDv5
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// NewID returns a new UUIDv7 (RFC 9562, section 5.7): 48 bits of milliseconds, then random bits. The ids sort roughly
// by time, so new rows are added at one end of the primary key's index instead of all over it.
func NewID() string {
	var u [16]byte
	rand.Read(u[6:]) // never fails (Go 1.24)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(u[:6], ms[2:])
	return canonical(u, 7)
}

// DerivedID returns the id of an event that follows from another one, the same for the same cause and name: a consumer
// that handles cause again, since its ledger was pruned or a row of it deleted, writes an event that others know. It is
// a UUIDv5 (RFC 9562, section 5.5) of name in the namespace cause, which uuid_generate_v5(cause, name) returns in
// Postgres. A cause that is not a UUID is part of the name, in the nil namespace.
func DerivedID(cause, name string) string {
	var namespace [16]byte
	if isUUID(cause) {
		_, _ = hex.Decode(namespace[:], []byte(strings.ReplaceAll(cause, "-", ""))) // isUUID has read it
	} else {
		name = cause + "\x00" + name
	}
	sum := sha1.Sum(append(namespace[:], name...)) //nolint:gosec // the RFC's, and no secret
	return canonical([16]byte(sum[:16]), 5)
}

// canonical is the text of a UUID, with its version and variant set.
func canonical(u [16]byte, version byte) string {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], u[0:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:36], u[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// isUUID accepts the canonical form only, because consumers compare ids as text and Postgres prints this form.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}
