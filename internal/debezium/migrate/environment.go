package migrate

import (
	"regexp"
	"strings"
)

// assignment is a line of an environment file, a shell script of exports, or `env`.
var assignment = regexp.MustCompile(`^(?:export\s+)?([A-Z][A-Z0-9_]*)=(.*)$`)

// notInVariables matches the characters of an option's name that a variable's name does not have.
var notInVariables = regexp.MustCompile(`[^A-Za-z0-9]`)

// fromEnvironment reads Debezium Server's options from environment variables, whose names MicroProfile Config makes
// from the options' names: upper case, with _ for every other character.
func fromEnvironment(text []byte) []entry {
	var all []entry
	for line := range strings.Lines(valid(text)) {
		found := assignment.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil || !strings.HasPrefix(found[1], "DEBEZIUM_") && !strings.HasPrefix(found[1], "QUARKUS_") {
			continue
		}
		all = append(all, entry{strings.ToLower(strings.ReplaceAll(found[1], "_", ".")), unquoted(found[2])})
	}
	return withAliases(all)
}

// withAliases gives the options of transformations and predicates the names that the lists of these have.
func withAliases(all []entry) []entry {
	if len(all) > maxOptions {
		return all // plausible refuses them
	}
	for _, kind := range []string{"debezium.transforms", "debezium.predicates"} {
		for _, e := range all {
			if e.name != kind {
				continue
			}
			for _, alias := range list(e.value) {
				folded := kind + "." + strings.ToLower(notInVariables.ReplaceAllString(alias, "."))
				for i := range all {
					if option, ok := strings.CutPrefix(all[i].name, folded+"."); ok {
						all[i].name = kind + "." + alias + "." + option
					}
				}
			}
		}
	}
	return all
}

// unquoted takes off a shell's quotes.
func unquoted(value string) string {
	for _, quote := range []string{`"`, "'"} {
		if inner, ok := strings.CutPrefix(value, quote); ok && strings.HasSuffix(inner, quote) {
			return strings.TrimSuffix(inner, quote)
		}
	}
	return value
}
