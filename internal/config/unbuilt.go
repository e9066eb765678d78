package config

import (
	"strconv"
	"strings"
)

// unbuilt lists the values of known keys whose function this version does not have. A setting that is read and then
// ignored would be a promise broken in silence, so they are refused. Building the function deletes its line.
var unbuilt = []struct {
	key      string
	value    string // refused; empty: anything but the default
	sentence string
}{
	{"postgres.snapshot", "initial", "the initial snapshot is not in this version; rows from before the slot was created are not published"},
}

// needs names, for keys that only mean something together with a function that is not built, the key of that function.
// They may be given, so that a file for a later version loads; they have no effect. A section's name
// stands for all its keys.
var needs = map[string]string{}

func neededBy(key string) string {
	for {
		if by := needs[key]; by != "" {
			return by
		}
		dot := strings.LastIndexByte(key, '.')
		if dot < 0 {
			return ""
		}
		key = key[:dot]
	}
}

// built says whether the field can be set to anything but its default, with effect.
func (f Field) built() bool {
	if neededBy(f.Key) != "" {
		return false
	}
	for _, u := range unbuilt {
		if u.key == f.Key && (u.value == "" || len(f.OneOf) <= 2) {
			return false
		}
	}
	return true
}

func (l *loader) refuseUnbuilt() {
	for _, u := range unbuilt {
		g := l.given[u.key]
		if text := plain(g.Text); u.value == text && text != "" || u.value == "" && len(g.list()) > 0 {
			l.fail(u.key, "", "%s", u.sentence)
		}
	}
}

// plain brings the ways to write yes and no to one.
func plain(text string) string {
	text = strings.TrimSpace(text)
	if b, ok := parseBool(text); ok {
		return strconv.FormatBool(b)
	}
	return text
}
