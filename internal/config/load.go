package config

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Options are the sources of the configuration.
type Options struct {
	Environ []string       // os.Environ()
	Flags   *pflag.FlagSet // parsed, with the flags of AddFlags; nil for none

	// File is the configuration file, unless a flag or the variable names another. Empty: none.
	File string
	// Settings are laid over everything, by key. Values are written as in variables.
	Settings map[string]string

	// Checks holds further checks by key, for rules that only other packages know, such as the form of a table name. A
	// check is called with the value; for a list with each element, for a secret with the result of Read. Its error
	// must not repeat a secret.
	Checks map[string]func(value string) error

	// Whole holds rules of other packages about several keys. Its error joins a *fault.Error for each problem, whose
	// Object is the key. The values may have problems of their own.
	Whole func(*Loaded) error
}

// Loaded is a configuration without problems.
type Loaded struct {
	Config
	Origins  map[string]Origin // by key
	Warnings []string          // allowed but unwise settings, as sentences
}

// Load reads all layers. Its error is a *fault.Error of kind Config around Problems, all there are.
func Load(o Options) (*Loaded, error) {
	l := &loader{given: defaultLayer(), checks: o.Checks}
	if path := cmp.Or(configFile(o.Flags, o.Environ), o.File); path != "" {
		l.lay(fileLayer(path))
	}
	l.lay(envLayer(o.Environ))
	if o.Flags != nil {
		l.lay(flagLayer(o.Flags), nil)
	}
	l.lay(settingsLayer(o.Settings))
	l.problems = slices.DeleteFunc(l.problems, l.settled)
	out := &Loaded{Origins: map[string]Origin{}}
	for _, f := range fields() {
		g := l.given[f.Key]
		out.Origins[f.Key] = g.Origin
		l.decode(f, g, reflect.ValueOf(&out.Config).Elem().FieldByIndex(f.index))
	}
	l.validate(&out.Config)
	l.runChecks(&out.Config)
	if o.Whole != nil {
		l.refuse(o.Whole(out))
	}
	if len(l.problems) > 0 {
		return nil, &fault.Error{Kind: fault.Config, Object: "configuration", Err: l.problems}
	}
	out.Warnings = warnings(&out.Config)
	return out, nil
}

// loader turns texts into values and collects problems.
type loader struct {
	given    layer // all layers merged
	checks   map[string]func(string) error
	problems Problems
	bad      map[string]bool // keys that have a problem; further checks would only repeat it
}

// lay puts a layer over the layers before it.
func (l *loader) lay(over layer, problems Problems) {
	maps.Copy(l.given, over)
	l.problems = append(l.problems, problems...)
}

// settled reports whether the problem is an open decision about a key that a layer above the file sets.
func (l *loader) settled(p Problem) bool {
	above := []string{"environment", "flag", layerSettings}
	return p.about != "" && slices.Contains(above, l.given[p.about].Origin.Layer)
}

// fail adds a problem with the value of a key, unless the key has one already.
func (l *loader) fail(key, allowed, format string, args ...any) {
	if l.bad[key] {
		return
	}
	if l.bad == nil {
		l.bad = map[string]bool{}
	}
	l.bad[key] = true
	for _, f := range fields() {
		if f.Key == key {
			l.problems = append(l.problems, l.given[key].problem(f, allowed, format, args...))
		}
	}
}

// decode sets v, the field's place in Config, from the text that was given.
func (l *loader) decode(f Field, g given, v reflect.Value) {
	text := strings.TrimSpace(g.Text)
	switch f.Type {
	case "secret":
		v.Set(reflect.ValueOf(newSecret(g.Text))) // blanks in a password count
	case "list":
		v.Set(reflect.ValueOf(g.list()))
	case "text":
		v.SetString(text)
	case "yes/no":
		b, ok := parseBool(text)
		if !ok {
			l.fail(f.Key, "true, false", "is neither yes nor no")
		}
		v.SetBool(b)
	case "number":
		n, err := strconv.Atoi(text)
		if err != nil {
			l.fail(f.Key, "a whole number such as "+f.Default, "is not a number")
		}
		v.SetInt(int64(n))
	case "duration":
		d, err := time.ParseDuration(text)
		if err != nil {
			l.fail(f.Key, "a number with a unit, such as 500ms, "+f.Default+" or 1m30s", "is not a duration")
		}
		v.SetInt(int64(d))
	case "size":
		n, err := parseSize(text)
		if err != nil {
			l.fail(f.Key, "a whole number with a unit, such as "+f.Default+" or 500MB", "is not a size")
		}
		v.SetInt(int64(n))
	case "share":
		share, err := parseShare(text)
		if err != nil {
			l.fail(f.Key, "0% to 100%, or 0 to 1", "is not a share")
		}
		v.SetFloat(float64(share))
	case typeMapping, typeRules:
		l.decodeJSON(f, text, v)
	}
	if len(f.OneOf) > 0 && !contains(f.OneOf, text) {
		l.fail(f.Key, oneOf(f.OneOf), "is not a known value")
	}
}

// parseBool takes every form of yes and no in YAML 1.1 and Go.
func parseBool(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1", "t", "y":
		return true, true
	case "false", "no", "off", "0", "f", "n":
		return false, true
	}
	return false, false
}

func contains(words []string, s string) bool {
	for _, w := range words {
		if w == s {
			return true
		}
	}
	return false
}

// oneOf joins the words. It shows an empty word, which means off, as quotes.
func oneOf(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = w
		if w == "" {
			shown[i] = `""`
		}
	}
	return strings.Join(shown, ", ")
}

// runChecks calls the checks of other packages for values that have no problem yet.
func (l *loader) runChecks(c *Config) {
	for _, f := range fields() {
		check, ok := l.checks[f.Key]
		if !ok || l.bad[f.Key] {
			continue
		}
		var values []string
		switch v := reflect.ValueOf(c).Elem().FieldByIndex(f.index).Interface().(type) {
		case Secret:
			text, err := v.Read()
			if err != nil || !v.IsSet() {
				continue // validate has reported it
			}
			values = []string{text}
		case []string:
			values = v
		case string:
			values = []string{v}
		}
		for _, v := range values {
			if err := check(v); err != nil {
				l.fail(f.Key, "", "%s", err.Error())
			}
		}
	}
}

// refuse adds the problems that an error joins.
func (l *loader) refuse(err error) {
	var f *fault.Error
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case err == nil:
	case ok:
		for _, one := range joined.Unwrap() {
			l.refuse(one)
		}
	case errors.As(err, &f) && slices.ContainsFunc(fields(), func(known Field) bool { return known.Key == f.Object }):
		what := f.Err.Error()
		if f.Next != "" {
			what += "; " + strings.ToLower(f.Next[:1]) + strings.TrimSuffix(f.Next[1:], ".")
		}
		l.fail(f.Object, "", "%s", what)
	default:
		l.problems = append(l.problems, Problem{Key: "configuration", What: err.Error()})
	}
}
