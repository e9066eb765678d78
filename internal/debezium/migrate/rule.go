package migrate

import (
	"slices"
	"strings"
)

// outcome is a rule's result for an option.
type outcome struct {
	verdict Verdict
	key     string
	note    string
}

// rule judges the options that it names. Rules are in tables; the first that fits an option decides.
type rule struct {
	options string                                // names, separated by white space; * is any text
	when    func(m *migration, value string) bool // the values that the rule is for, nil for all
	words   string                                // the values that are the same here; any other is refused
	verdict Verdict
	key     string                                         // of this program's configuration
	note    string                                         // {value} is the option's value
	set     func(m *migration, key, value string)          // sets the key
	judge   func(m *migration, name, value string) outcome // instead of the fields from words on
}

// find returns the outcome of the first rule that fits. A placeholder meets no condition, although its value may: so a
// rule that was passed over, and says more than that the option has no meaning, is kept.
func (m *migration) find(table []rule, name, value string) (outcome, bool) {
	for i := range table {
		switch r := &table[i]; {
		case !r.names(name):
		case r.when == nil || r.when(m, value):
			return r.apply(m, name, value), true
		case m.passed == nil && (r.verdict == Decide || r.verdict == Refused):
			m.passed = r
		}
	}
	return outcome{}, false
}

func (r *rule) names(name string) bool {
	for pattern := range strings.FieldsSeq(r.options) {
		if fits(pattern, name) {
			return true
		}
	}
	return false
}

// fits reports whether the name is the pattern, in which * is any text.
func fits(pattern, name string) bool {
	head, tail, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, head)
	for i := 0; ok && i <= len(rest); i++ {
		if tail == "" || fits(tail, rest[i:]) {
			return true
		}
	}
	return false
}

func (r *rule) apply(m *migration, name, value string) outcome {
	if r.judge != nil {
		return r.judge(m, name, value)
	}
	if r.words != "" {
		value = strings.ToLower(value)
		if words := strings.Fields(r.words); !slices.Contains(words, value) {
			return outcome{Refused, r.key, "Only " + strings.Join(words, ", ") + " give the same result here."}
		}
	}
	if r.set != nil {
		r.set(m, r.key, value)
	}
	return outcome{r.verdict, r.key, strings.ReplaceAll(r.note, "{value}", value)}
}

// under puts a prefix before the names of a table's rules.
func under(prefix string, table []rule) []rule {
	table = slices.Clone(table)
	for i := range table {
		names := strings.Fields(table[i].options)
		table[i].options = prefix + strings.Join(names, " "+prefix)
	}
	return table
}

// Conditions on values.

// is compares without regard to case.
func is(words ...string) func(*migration, string) bool {
	return func(_ *migration, value string) bool { return slices.Contains(words, strings.ToLower(value)) }
}

func exactly(words ...string) func(*migration, string) bool {
	return func(_ *migration, value string) bool { return slices.Contains(words, value) }
}

func endsIn(suffixes ...string) func(*migration, string) bool {
	return func(_ *migration, value string) bool {
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(value, s) })
	}
}

// replacedBy reports whether the option that has replaced this one is given too: then Debezium ignores this one.
func replacedBy(name string) func(*migration, string) bool {
	return func(m *migration, _ string) bool { return m.in.has(name) }
}

// Ways to set a key.

func text(m *migration, key, value string)  { m.out.set(key, value) }
func truth(m *migration, key, value string) { m.out.set(key, strings.EqualFold(value, "true")) }

func constant(setting any) func(*migration, string, string) {
	return func(m *migration, key, _ string) { m.out.set(key, setting) }
}
