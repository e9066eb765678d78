package migrate

import (
	"fmt"
	"regexp"
	"strings"
)

// Verdict is the result for an option.
type Verdict string

const (
	Translated Verdict = "translated" // Key holds it now
	Without    Verdict = "without_meaning"
	Decide     Verdict = "needs_decision"
	Refused    Verdict = "refused" // cannot be equal
	Unknown    Verdict = "unknown"
)

// Entry accounts for one option.
type Entry struct {
	Option  string  `json:"option"`          // as in the file; followed by "(not given)" if a default decides
	Value   string  `json:"value,omitempty"` // masked if it may be a secret
	Verdict Verdict `json:"verdict"`
	Key     string  `json:"key,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// Report is the whole answer.
type Report struct {
	Connector   string          `json:"connector,omitempty"`
	Form        Form            `json:"form"`
	From        string          `json:"from,omitempty"` // how the file has it, such as "as YAML"
	Config      string          `json:"config"`
	Options     []Entry         `json:"options"`
	Differences []string        `json:"differences"`
	Takeover    []Step          `json:"takeover"`
	Rollback    []Step          `json:"rollback"`
	SideBySide  []Step          `json:"side_by_side"`
	Counts      map[Verdict]int `json:"counts"`
}

// Settled reports whether nothing is left for a person to decide.
func (r *Report) Settled() bool {
	return r.Counts[Decide]+r.Counts[Refused]+r.Counts[Unknown] == 0
}

var (
	secretName = regexp.MustCompile(`(?i)passw|secret|jaas|credential|token|userinfo|user\.info|` +
		`(^|\.)(ssl\.keystore\.key|sslkey|api[._-]?key)$`)
	placeholder = regexp.MustCompile(`\$\{[^{}]*\}`)
	filler      = regexp.MustCompile(`\{\{[^{}]*\}\}|(^|[^?P(])<[A-Za-z][\w. -]*>|\$\(?[A-Z][A-Z0-9_]{2,}\)?|` +
		`\{%|<%|%[A-Z][A-Z0-9_]+%|@[A-Za-z][\w.-]*@|__[A-Z][A-Z0-9_]*__|#\{[^{}]*\}|^\s*[{[][A-Za-z][\w .-]*[]}]\s*$|` +
		`(^|[^A-Za-z])(?i:your[-_ ][a-z])|_HERE\s*$|^\s*\$[a-z_]\w*\s*$|` +
		`^\s*(REQUIRED|TODO|TBD|FIXME|XXX+|(?i:change_?-?me|replace_?-?me|placeholder|to be (set|defined)))\s*$`)
	userinfo = regexp.MustCompile(`://[^/@\s]*@`)
	assigned = regexp.MustCompile(`(?i)((?:passw\w*|secret|token)["']?[\s:=]+)[^\s,;&]+`)
	wholly   = regexp.MustCompile(`^\s*\$\{[^{}]*\}\s*$`)
)

// maskedValue is the value as the report may show it. A placeholder is not a secret: it says where the secret is.
func maskedValue(name, value string, known bool) string {
	switch {
	case value == "" || wholly.MatchString(value):
		return strings.TrimSpace(value)
	case secretName.MatchString(name), !known:
		return "***"
	}
	// Addresses and statements may contain a secret too.
	return assigned.ReplaceAllString(userinfo.ReplaceAllString(value, "://***@"), "$1***")
}

// unresolved reports whether the value is elsewhere: a placeholder, or a gap that a template leaves to be filled in.
func unresolved(value string) bool {
	return placeholder.MatchString(value) || filler.MatchString(value)
}

// explain describes the place of a placeholder's value.
func explain(value string) string {
	if !placeholder.MatchString(value) {
		return "A template's gap, and not yet a value."
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(placeholder.FindString(value), "${"), "}")
	provider, rest, qualified := strings.Cut(inner, ":")
	switch {
	case !qualified:
		return fmt.Sprintf("The value is in the environment variable or property %s.", inner)
	case provider == "file":
		path, key, _ := cutLast(rest, ":")
		return fmt.Sprintf("Connect reads the entry %s of the properties file %s; put this value, alone, into a file.",
			key, path)
	case provider == "dir", provider == "directory":
		path, key, _ := cutLast(rest, ":")
		return fmt.Sprintf("The value is the file %s/%s.", path, key)
	case provider == "env":
		return fmt.Sprintf("The value is in the environment variable %s.", rest)
	case strings.ToUpper(provider) == provider:
		return fmt.Sprintf("The value is in the environment variable %s, with a default in the file.", provider)
	}
	return fmt.Sprintf("Connect asks its configuration provider %q; put the value into a file.", provider)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
