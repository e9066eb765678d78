package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// EnvPrefix starts the name of every environment variable of this program.
const EnvPrefix = "CDC_OUTBOX_"

// FileSuffix at the end of a secret's variable means that the value is the name of a file that holds the secret.
const FileSuffix = "_FILE"

// Field describes one key.
type Field struct {
	Key     string   // "postgres.dsn"
	Env     string   // "CDC_OUTBOX_POSTGRES_DSN"
	Flag    string   // "postgres-dsn", without dashes in front
	Type    string   // for people: text, yes/no, number, duration, size, share, list, mapping, rules, secret
	Default string   // as it would be written in a variable
	Doc     string   // the comment above the struct's field
	Example string   // empty if the default is a sufficient example
	OneOf   []string // the allowed values; empty if there is no such list
	mask    string   // "dsn": only the password in it is secret
	index   []int    // path into Config
}

// Secret reports whether the value must not be shown.
func (f Field) Secret() bool { return f.Type == "secret" }

// Fields returns all keys in the order of the structs. The slice is shared: do not change it.
func Fields() []Field { return fields() }

var fields = sync.OnceValue(func() []Field {
	var all []Field
	collect(reflect.TypeFor[Config](), "", nil, &all)
	return all
})

// longLists are lists of allowed values that are too long for a tag, by the word in the tag.
var longLists = map[string]string{
	"time precisions": "adaptive|adaptive_time_microseconds|connect|microseconds|nanoseconds|isostring",
}

func collect(t reflect.Type, prefix string, index []int, all *[]Field) {
	for i := range t.NumField() {
		sf := t.Field(i)
		key := prefix + sf.Tag.Get("key")
		path := append(append([]int(nil), index...), i)
		if sf.Type.Kind() == reflect.Struct && sf.Type != reflect.TypeFor[Secret]() {
			collect(sf.Type, key+".", path, all)
			continue
		}
		f := Field{
			Key:     key,
			Env:     envName(key),
			Flag:    flagName(key),
			Type:    typeName(sf.Type),
			Default: sf.Tag.Get("default"),
			Doc:     docs[key],
			Example: sf.Tag.Get("example"),
			mask:    sf.Tag.Get("mask"),
			index:   path,
		}
		if words, ok := sf.Tag.Lookup("oneof"); ok {
			f.OneOf = strings.Split(cmp.Or(longLists[words], words), "|")
		}
		*all = append(*all, f)
	}
}

// envName is the variable that sets the key.
func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// flagName is the flag that sets the key, without the dashes in front.
func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Share]():
		return "share"
	case reflect.TypeFor[map[string]string]():
		return typeMapping
	case reflect.TypeFor[[]TopicRule]():
		return typeRules
	}
	switch t.Kind() {
	case reflect.Bool:
		return "yes/no"
	case reflect.Int:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.String:
		return "text"
	default:
		panic("config: no type name for " + t.String()) // a field of a new type, found by any test
	}
}

// fieldBy returns the fields as a map. Its keys are the results of name.
func fieldBy(name func(Field) string) map[string]Field {
	m := make(map[string]Field, len(fields()))
	for _, f := range fields() {
		m[name(f)] = f
	}
	return m
}

// sections returns the names of all sections.
func sections() []string {
	seen := map[string]bool{}
	for _, f := range fields() {
		for i, c := range f.Key {
			if c == '.' {
				seen[f.Key[:i]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// IsKey reports whether the configuration has the key.
func IsKey(key string) bool {
	return slices.ContainsFunc(fields(), func(f Field) bool { return f.Key == key })
}

// isSection reports whether there are keys below this one.
func isSection(key string) bool {
	for _, f := range fields() {
		if strings.HasPrefix(f.Key, key+".") {
			return true
		}
	}
	return false
}
