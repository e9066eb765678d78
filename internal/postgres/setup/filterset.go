package setup

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// filterSet are the publications that send parts of one table: the configured one comes first.
type filterSet struct {
	Shares []filterShare
	Sample filterSample // of the table's rows, where the filters alone prove nothing
	Slots  int          // that the checkpoint remembers and that exist in this database; -1: not known
}

// filterShare is one publication that publishes inserts into the table, and its row filter.
type filterShare struct {
	Publication string `json:"publication"`
	Filter      string `json:"filter"`
}

// filterSample is how many rows of the table satisfy none of the filters, or more than one.
type filterSample struct {
	Rows, None, Many     int64
	NoneExample, Example string // ids
	Err                  string // why there is no sample
}

func (s filterSet) names() string {
	names := make([]string, 0, len(s.Shares))
	for _, share := range s.Shares {
		names = append(names, share.Publication)
	}
	return strings.Join(names, ", ")
}

// filterVerdict is what the filters of a set say without any row.
type filterVerdict struct {
	Missing string // rows that no filter holds for; empty: not known of any
	Twice   string // rows that several hold for
	Doubt   string // why it is not proven that each row satisfies one at least; empty: it is
}

// judgeFilters proves what can be proven: filters that compare one expression with constants. Every step is on the safe
// side: what is not understood is a doubt.
func judgeFilters(set filterSet, t postgres.OutboxTable) filterVerdict {
	var terms []filterTerm
	var others []string
	for i, s := range set.Shares {
		term, ok := parseFilter(s.Filter)
		switch {
		case !ok && i == 0:
			return filterVerdict{Doubt: "the filters are not understood"}
		case !ok || i > 0 && term.of != terms[0].of:
			others = append(others, s.Publication)
		default:
			terms = append(terms, term)
		}
	}
	v := judgeTerms(terms)
	switch why := mayBeNull(terms[0].of, t); {
	case len(others) > 0 && (v.Missing != "" || v.Doubt != ""):
		return filterVerdict{Doubt: "the filters compare different expressions"}
	case v.Missing == "" && v.Doubt == "" && why != "":
		v.Doubt = why
	case len(others) > 0 && v.Twice == "":
		v.Twice = "rows that " + strings.Join(others, ", ") + " publishes too"
	}
	return v
}

func judgeTerms(terms []filterTerm) (v filterVerdict) {
	of := terms[0].of
	values := valuesOf(of)
	all := slices.Clone(values.possible)
	const rest = "any other value"
	if len(all) == 0 {
		for _, t := range terms {
			all = append(all, t.in...)
		}
		slices.Sort(all)
		all = append(slices.Compact(all), rest)
	}
	var missing, twice []string
	for _, value := range all {
		n := 0
		for _, t := range terms {
			if t.holds(value) {
				n++
			}
		}
		switch {
		case n == 0:
			missing = append(missing, value)
		case n > 1:
			twice = append(twice, value)
		}
	}
	if len(twice) > 0 {
		v.Twice = fmt.Sprintf("rows with %s = %s", of, listed(twice))
	}
	positive := slices.ContainsFunc(missing, func(s string) bool { return !strings.HasPrefix(s, "-") })
	switch {
	case len(missing) == 0:
		v.Doubt = values.doubt
	case len(values.possible) == 0:
		v.Doubt = fmt.Sprintf("no filter is for %s of %s", listed(missing), of)
	case positive || values.hashed:
		v.Missing = fmt.Sprintf("rows with %s = %s", of, listed(missing))
	default:
		v.Doubt = fmt.Sprintf("%% of a negative number is negative or 0, and no filter is for %s = %s", of,
			listed(missing))
	}
	return v
}

func listed(values []string) string {
	const shown = 5
	if len(values) > shown {
		return strings.Join(values[:shown], ", ") + ", …"
	}
	return strings.Join(values, ", ")
}

// filterValues are the values that an expression can have.
type filterValues struct {
	possible []string // empty: not limited
	hashed   bool     // a hash: all of them occur
	doubt    string   // that every row has a value, which no list of values shows
}

// mostValues bounds what is enumerated.
const mostValues = 1024

var hashing = regexp.MustCompile(`\b(hash[a-z0-9_]+|uuid_hash[a-z_]*)\(`)

// valuesOf knows x & m, x % n, mod(x, n) and abs() of a remainder. The remainder of a negative number is negative or 0,
// and most hashes are signed.
func valuesOf(of string) (v filterValues) {
	v.hashed = hashing.MatchString(of)
	add := func(n int) { v.possible = append(v.possible, strconv.Itoa(n)) }
	if sides := splitTop(of, " & "); len(sides) == 2 {
		mask, ok := integer(sides[1])
		if !ok || mask < 0 {
			return v
		}
		// every subset of the mask's bits, downwards
		for sub := mask; len(v.possible) <= mostValues; sub = (sub - 1) & mask {
			add(sub)
			if sub == 0 {
				v.doubt = abs(unwrap(sides[0]))
				slices.Reverse(v.possible)
				return v
			}
		}
		v.possible = nil
		return v
	}
	whole := false
	inner, isAbs := call(of, "abs")
	if isAbs {
		of, whole = unwrap(inner), true
	}
	x, n, ok := remainder(of)
	if !ok || n > mostValues {
		return v
	}
	v.doubt = abs(x)
	least := 0
	if !whole && !neverNegative(x) {
		least = 1 - n
	}
	for r := least; r < n; r++ {
		add(r)
	}
	return v
}

// remainder takes x % n and mod(x, n) apart.
func remainder(of string) (x string, n int, ok bool) {
	sides := splitTop(of, " % ")
	if arguments, isCall := call(of, "mod"); isCall {
		sides = splitTop(arguments, ", ")
	}
	if len(sides) != 2 {
		return "", 0, false
	}
	n, ok = integer(sides[1])
	return unwrap(sides[0]), max(n, -n), ok && n != 0
}

// neverNegative reports it of abs(), of x & m and of lengths.
func neverNegative(x string) bool {
	for _, f := range []string{"abs", "length", "char_length", "octet_length", "ascii"} {
		if _, ok := call(x, f); ok {
			return true
		}
	}
	if sides := splitTop(x, " & "); len(sides) == 2 {
		m, ok := integer(sides[1])
		return ok && m >= 0
	}
	return false
}

var widened = regexp.MustCompile(`^\(hash(text|bpchar|char|name|int[248]|oid)\(.*\)\)::bigint$`)

// abs doubts abs() of a number that may be the smallest of its type: that is an error, which ends decoding at the row.
func abs(x string) string {
	inner, ok := call(x, "abs")
	if !ok || widened.MatchString(inner) {
		return ""
	}
	if _, _, ok := remainder(unwrap(inner)); ok {
		return ""
	}
	return "abs() of the smallest number of a type is an error, which would end decoding: abs(x % n) has none"
}

// call returns the arguments where the whole text is one call of the function.
func call(text, function string) (arguments string, ok bool) {
	rest, ok := strings.CutPrefix(text, function+"(")
	if !ok || closing(text, len(function)) != len(text)-1 {
		return "", false
	}
	return rest[:len(rest)-1], true
}
