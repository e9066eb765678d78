package login

import (
	"net"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/xdg-go/stringprep"
	"golang.org/x/text/unicode/norm"
)

// PostgreSQL prepares a password for SCRAM by SASLprep (RFC 4013), and takes it as it is if that fails (pg_saslprep).
// pgx prepares it by another profile (RFC 8265), which keeps what SASLprep replaces, such as superscripts, ligatures,
// full-width letters and soft hyphens. What SASLprep gives, pgx leaves as it is; a password that SASLprep does not
// allow it may compose (U+0340), which nothing here can prevent. The other methods take the password unprepared, and
// the method is known only once the server asks.

// whenSASL is what to do when the server of a connection asks for SCRAM.
var whenSASL sync.Map // by net.Conn, until the login begins

// Prepare has the password of the configuration, which is that of one connection, prepared if the server asks for
// SCRAM. conn is the connection, before its login.
func Prepare(pc *pgconn.Config, conn net.Conn) {
	raw := pc.Password
	if prepared := saslprep(raw); prepared != raw {
		whenSASL.Store(conn, func() { pc.Password = prepared })
	}
}

// profile is SASLprep before the normalization. PostgreSQL differs from the RFC in the order: it maps a character to a
// space first, and looks for prohibited ones before it normalizes.
var profile = stringprep.Profile{
	Mappings:  []stringprep.Mapping{spaces, stringprep.TableB1},
	Prohibits: stringprep.SASLprep.Prohibits, CheckBiDi: true,
}

// spaces are the characters of RFC 3454, table C.1.2, and one that the library's table B.1 lacks, mapped to nothing.
var spaces = func() stringprep.Mapping {
	m := stringprep.Mapping{'\u1806': nil}
	for r := '\u2000'; r <= '\u200b'; r++ {
		m[r] = []rune{' '}
	}
	for _, r := range "\u00a0\u1680\u202f\u205f\u3000" {
		m[r] = []rune{' '}
	}
	return m
}()

// saslprep returns the password as PostgreSQL prepares it.
func saslprep(password string) string {
	ascii := true
	for i := range len(password) {
		ascii = ascii && password[i] < utf8.RuneSelf
	}
	if ascii || !utf8.ValidString(password) {
		return password
	}
	prepared, err := profile.Prepare(password)
	if err != nil || prepared == "" {
		return password
	}
	return norm.NFKC.String(prepared)
}
