// Package nearest guesses the name that a mistyped one stands for.
package nearest

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Name returns the candidate that name was probably meant to be, or nothing if no candidate is near. A name that is
// the end of exactly one candidate, such as "slot" of "postgres.slot", counts as near.
func Name(name string, candidates []string) string {
	best, distance := "", len(name)/3+2
	var suffix []string
	for _, c := range candidates {
		if d := levenshtein.Distance(name, c, nil); d < distance {
			best, distance = c, d
		}
		front, is := strings.CutSuffix(c, name[strings.LastIndexByte(name, '.')+1:])
		if is && front != "" && strings.ContainsRune("._-", rune(front[len(front)-1])) {
			suffix = append(suffix, c)
		}
	}
	if best == "" && len(suffix) == 1 {
		return suffix[0]
	}
	return best
}
