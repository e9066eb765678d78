package session

import "strings"

// Application is the application_name of the stream's session, under which the server knows it as a standby.
func Application(slot string) string { return "cdc-outbox/" + slot }

// TakesIn reports whether a value of synchronous_standby_names counts a session of this application_name among the
// synchronous standbys (Postgres docs 20.6.1): a list of names, with or without FIRST n (…) or ANY n (…) around it. The
// server compares names without regard to case; * is every session that streams, and logical replication streams.
func TakesIn(names, application string) bool {
	if open := strings.IndexByte(names, '('); open >= 0 && !strings.Contains(names[:open], `"`) {
		names = strings.TrimSuffix(strings.TrimSpace(names[open+1:]), ")")
	}
	for _, name := range splitNames(names) {
		if name == "*" || strings.EqualFold(unquoted(name), application) {
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
