package session

import (
	"strconv"
	"strings"
)

// Application is the application_name of the stream's session, under which the server knows it as a standby.
func Application(slot string) string { return "cdc-outbox/" + slot }

// Synchronous is a value of synchronous_standby_names (Postgres docs 20.6.1): a list of names, with or without
// FIRST n (…) or ANY n (…) around it.
type Synchronous struct {
	Names []string // without quotes; AnyName is every standby
	Count int      // how many of them a commit waits for
	Any   bool     // whichever; otherwise those named first
}

// AnyName stands for every session that streams, and logical replication streams.
const AnyName = "*"

// ParseSynchronous reads a value that the server has accepted.
func ParseSynchronous(value string) Synchronous {
	s := Synchronous{Count: 1}
	if open := strings.IndexByte(value, '('); open >= 0 && !strings.Contains(value[:open], `"`) {
		words := strings.Fields(value[:open])
		if len(words) > 0 {
			s.Any = strings.EqualFold(words[0], "any")
			if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
				s.Count = n
			}
		}
		value = strings.TrimSuffix(strings.TrimSpace(value[open+1:]), ")")
	}
	for _, name := range splitNames(value) {
		if name != "" {
			s.Names = append(s.Names, unquoted(name))
		}
	}
	return s
}

// TakesIn reports whether a value of synchronous_standby_names counts a session of this application_name among the
// synchronous standbys. The server compares names without regard to case.
func TakesIn(names, application string) bool {
	for _, name := range ParseSynchronous(names).Names {
		if name == AnyName || strings.EqualFold(name, application) {
			return true
		}
	}
	return false
}

// splitNames splits at the commas that are not within quotes.
func splitNames(list string) []string {
	var out []string
	begin, quoted := 0, false
	for i := range len(list) {
		switch {
		case list[i] == '"':
			quoted = !quoted
		case list[i] == ',' && !quoted:
			out = append(out, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	return append(out, strings.TrimSpace(list[begin:]))
}

func unquoted(name string) string {
	if len(name) >= 2 && name[0] == '"' && name[len(name)-1] == '"' {
		return strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
	}
	return name
}
