package config

import (
	"net/url"
	"regexp"
	"strings"
)

// shownDSN lists the parameters of a connection string whose values may be shown. Anything else in it, especially after
// a misspelled keyword, may be part of a password.
var shownDSN = map[string]bool{
	"host": true, "hostaddr": true, "port": true, "user": true, "dbname": true, "database": true, "sslmode": true,
	"sslrootcert": true, "sslcert": true, "sslkey": true, "sslnegotiation": true, "sslsni": true, "passfile": true,
	"service": true, "servicefile": true, "connect_timeout": true, "application_name": true,
	"target_session_attrs": true, "channel_binding": true, "min_protocol_version": true, "max_protocol_version": true,
}

// withoutCredentials masks the parts of an address in front of its host and, in a URL, after its path.
func withoutCredentials(text string) string {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		scheme, rest = "", text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && (isURL || strings.Contains(rest[:at], ":")) {
		rest = masked + rest[at:]
	}
	if !isURL {
		return rest
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end+1] + masked
	}
	return scheme + "://" + rest
}

var (
	dsnHost = regexp.MustCompile(`^(\[[0-9A-Za-z:.%]+\]|[0-9A-Za-z._-]*)(:[0-9]*)?$`)
	dsnName = regexp.MustCompile(`^[0-9A-Za-z._~%-]*$`)
	// A no-break space in front of the keyword password does not end the value before it.
	runTogether = regexp.MustCompile(`(?i)password\s*=`)
)

// redactDSN returns a connection string that may be shown. It masks passwords. If the string is malformed, so that its
// password cannot be located, it masks the whole string.
func redactDSN(dsn string) string {
	if dsn == "" {
		return ""
	}
	shown, ok := "", false
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, is := strings.CutPrefix(dsn, scheme); is {
			shown, ok = redactURL(rest)
			shown = scheme + shown
		}
	}
	if !strings.Contains(dsn, "://") {
		shown, ok = redactKeywords(dsn)
	}
	if !ok {
		return masked
	}
	return shown
}

// redactURL does not use net/url, which refuses several hosts and mistakes a password with / or # for a path.
func redactURL(rest string) (string, bool) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	if strings.ContainsAny(tail, "@#") {
		return "", false
	}
	var b strings.Builder
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(authority[:at], ":")
		if !dsnName.MatchString(user) {
			return "", false
		}
		b.WriteString(user)
		if hasPassword {
			b.WriteString(":" + masked)
		}
		b.WriteByte('@')
		hosts = authority[at+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if !dsnHost.MatchString(host) {
			return "", false
		}
	}
	b.WriteString(hosts)
	path, query, _ := strings.Cut(tail, "?")
	if !dsnName.MatchString(strings.TrimPrefix(path, "/")) {
		return "", false
	}
	b.WriteString(path)
	if query != "" && !redactQuery(&b, query) {
		return "", false
	}
	return b.String(), true
}

func redactQuery(b *strings.Builder, query string) bool {
	sep := byte('?')
	for pair := range strings.SplitSeq(query, "&") {
		name, value, ok := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || !ok {
			return false
		}
		b.WriteByte(sep)
		sep = '&'
		switch {
		case shownDSN[name]:
			b.WriteString(name + "=" + value)
		case name == "password" || name == "sslpassword":
			b.WriteString(name + "=" + masked)
		default:
			return false
		}
	}
	return true
}

// redactKeywords reads keyword=value pairs as libpq does ("Connection Strings", 34.1.1.1): values in single quotes may
// hold blanks, and a backslash takes the next character as it is.
func redactKeywords(dsn string) (string, bool) {
	var out []string
	for rest := strings.TrimSpace(dsn); rest != ""; rest = strings.TrimSpace(rest) {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return "", false
		}
		name = strings.TrimSpace(name)
		value, tail, ok := keywordValue(strings.TrimLeft(after, " \t\r\n\v\f"))
		if !ok {
			return "", false
		}
		rest = tail
		switch {
		case shownDSN[name] && !runTogether.MatchString(value):
			out = append(out, name+"="+value)
		case name == "password" || name == "sslpassword":
			out = append(out, name+"="+masked)
		default:
			return "", false
		}
	}
	return strings.Join(out, " "), true
}

// keywordValue splits the value, quotes and backslashes included, from the rest.
func keywordValue(s string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case quoted && i > 0 && c == '\'':
			return s[:i+1], s[i+1:], true
		case !quoted && strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			return s[:i], s[i:], true
		}
	}
	return s, "", !quoted
}
