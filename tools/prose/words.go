package main

import (
	"regexp"
	"slices"
	"strings"
)

// wordRule forbids an expression. Patterns ignore case. A match is let pass where before matches what precedes it, or
// after what follows it: those are the standard senses of the same words.
type wordRule struct {
	name          string
	pattern       string
	before, after string
	say           string
	proseOnly     bool // means something else in program text that is not Go
	advice        bool

	needs []string // one of these is in every match; found faster than the pattern

	match, standardBefore, standardAfter *regexp.Regexp
}

// wordRules is the list. Each line names a habit of this project's own English, and the word that the rest of the world
// uses.
var wordRules = []wordRule{
	{name: "mend", pattern: `\bmend(s|ed|ing)?\b`, say: "fix"},
	{name: "anew", pattern: `\b(anew|afresh)\b`, say: "again; re-create, rewrite"},
	{name: "told", pattern: `\btold\b`, say: "is reported, is configured, receives"},
	{name: "tells", pattern: `\btells\b`, say: "reports, shows, distinguishes"},
	{name: "says whether", pattern: `\b(says|tell|say) whether\b`, say: "reports whether"},
	{name: "whoever", pattern: `\bwho(m|so)?ever\b`, say: "anyone who, the process that"},
	{name: "whatever", pattern: `\b(whatever|whichever)\b`, say: "any X that; regardless of", advice: true},
	{
		name:    "nobody",
		pattern: `\b(some|no|any|every)body\b`,
		say:     "name the actor: an operator, another process, no process",
	},
	{name: "stands", pattern: `\b(stands|stood)\b`, after: `^ for\b`, say: "is, waits, remains"},
	{
		name:    "stands",
		pattern: `\b(can|may|must|to|that|which|they|not|still|rows|it) stand\b`,
		after:   `^ (for|up|out)\b`,
		say:     "be, remain, wait",
	},
	{name: "lets go", pattern: `\blet(s|ting)? (\w+ )?go\b`, say: "releases"},
	{
		name:    "the like",
		pattern: `\b(and|or) (the )?(like|suchlike)\b`,
		after:   `^ (a|an|the|any|most|all)\b`,
		say:     "similar, and so on",
	},
	{
		name:    "made of",
		pattern: `\b(made|makes|make|making) (up )?(out )?of\b`,
		after:   `^ (a|the) (decision|use)\b`,
		say:     "built from, produced from, consists of",
	},
	{
		name:    "is no",
		pattern: `\b(is|are|was|were|be) no [a-z]+`,
		before:  `\b(there|here) $`,
		say:     "is not a",
	},
	{name: "passes for", pattern: `\bpass(es|ed|ing)? for\b`, say: "is mistaken for"},
	{name: "do without", pattern: `\b(do|does|doing|did|done) without\b`, say: "is skipped; does not need"},
	{name: "else", pattern: `(^|[,;.:] |\bor )else\b`, say: "otherwise", proseOnly: true},
	{
		name:    "look",
		pattern: `\b(a|one|each|every|second|first|next|last|two|three|six|both|between|many|few|the|its) looks?\b`,
		after:   `^ (like|at home|the same)\b`,
		say:     "check, sample, query",
	},
	{name: "look", pattern: `\blooks? (in a row|to look)\b`, say: "check"},
	{name: "looked at", pattern: `\blook(s|ed|ing)? at\b`, say: "checks, examines, reads", advice: true},
	{name: "gets on", pattern: `\b(get|gets|getting|got) on\b`, say: "makes progress"},
	{
		name:    "behind",
		pattern: `\bbehind\b`,
		say:     "after",
		before: `\b(fall|falls|fell|fallen|falling|lag|lags|lagging|lagged|left|leave|leaves|leaving|stay|stays|` +
			`far|further|how much|gets?|is|are|(\d+|one|how many|few|several|some|\x01+) ` +
			`(bytes?|MiB|GiB|seconds?|minutes?|events?|records?|rows?|transactions?)) $`,
		after: `^ (a|an|the|its|your|their|one) ([a-z-]+ )?` +
			`(balancer|proxy|proxies|poolers?|firewall|NAT|gateway|interface|forward|PgBouncer)\b`,
	},
	{
		name:    "way",
		pattern: `\b(in|out of|on|off) (the|its|their|his) way\b`,
		say:     "during, in transit, blocking; path, connection",
	},
	{
		name: "way",
		pattern: `\bhalf[- ]way\b|\b(the )?way back\b|\bby way of\b|` +
			`\bways? to (Kafka|Postgres|each|every|it|them|a|the) ?(host|server|broker|database)?\b`,
		say: "path, connection; interrupted; rollback; through",
	},
	{
		name:    "own accord",
		pattern: `\bof (its|their) own accord\b|\bby (itself|themselves)\b`,
		say:     "automatically; alone",
	},
	{
		name:    "comes again",
		pattern: `\b(come|comes|came|coming) (once more|again)\b`,
		say:     "is sent again, is published again",
	},
	{name: "held up", pattern: `\b(hold|holds|held|holding) (\w+ )?up\b`, say: "delays, blocks"},
	{name: "gone", pattern: `\bgone\b`, say: "no longer exists, was deleted, has ended"},
	{name: "aside", pattern: `\baside\b`, say: "dead-lettered, skipped; the exact verb"},
	{name: "no matter", pattern: `\bno matter\b`, say: "regardless of, whether or not"},
	{
		name:    "in vain",
		pattern: `\b(in vain|aloud|to pieces|in pieces|lest|naught|nought|in sight|as it were|many a)\b`,
		say:     "plain words",
	},
	{
		name: "that one",
		pattern: `\bthat one('s\b|[,;.:)]| ` +
			`(is|has|does|do|can|cannot|may|goes|ends|waits|and|or|of|for|only|too|alone|will|must)\b)`,
		before: `\bso $`,
		say:    "repeat the noun",
	},
	{
		name:    "those of",
		pattern: `\bthose (of|that|which|who|with|in|on|from|behind|before|after|for)\b`,
		say:     "repeat the noun",
	},
	{
		name:    "the one",
		pattern: `\bthe (one|ones) (that|which|who|of|before|behind|after|in|it|from|with|for|whose|to|on|here)\b`,
		say:     "repeat the noun",
	},
	{
		name:      "who as subject",
		pattern:   `(^|[.;:] )(Who|What|Where) (\w+ )?(is|was|are|were|has|had|does|\w+s) [^.?]*(\.|$)`,
		say:       "name the subject: anyone who, rows that, if",
		advice:    true,
		proseOnly: true,
	},
	{name: "goes on", pattern: `\b(go|goes|went|going) on\b`, say: "continues", advice: true},
	{name: "once more", pattern: `\bonce more\b`, say: "again", advice: true},
	{
		name:      "contraction",
		pattern:   `\b\w+n't\b|\b(it|that|there|what|who|let|here|he|she)'s\b|\b\w+'(re|ve|ll|d|m)\b`,
		say:       "write it out",
		proseOnly: true,
	},
}

// needs names, by rule, pieces of text of which every match has one, separated by |.
var needs = map[string]string{
	"mend":           "mend",
	"anew":           "anew|afresh",
	"told":           "told",
	"tells":          "tells",
	"says whether":   " whether",
	"whoever":        "ever",
	"whatever":       "ever",
	"nobody":         "body",
	"stands":         "stand|stood",
	"lets go":        " go",
	"the like":       "like",
	"made of":        "mak|made",
	"is no":          " no ",
	"passes for":     "pass",
	"do without":     " without",
	"else":           "else",
	"look":           "look",
	"looked at":      "look",
	"gets on":        " on",
	"behind":         "behind",
	"way":            "way",
	"own accord":     "own accord|by itself|by themselves",
	"comes again":    " again| once more",
	"held up":        " up",
	"gone":           "gone",
	"aside":          "aside",
	"no matter":      "no matter",
	"that one":       "that one",
	"those of":       "those",
	"the one":        "the one",
	"who as subject": "who|what|where",
	"goes on":        " on",
	"once more":      "once more",
	"contraction":    "'",
}

// standardIsNo are words before which "is no" is standard English.
var standardIsNo = regexp.MustCompile(
	`(?i) (longer|more|less|fewer|other|different|better|worse|larger|` +
		`later|earlier|newer|older|smaller|such|need|way|reason|matter)$`,
)

func init() {
	for i := range wordRules {
		r := &wordRules[i]
		r.match = regexp.MustCompile(`(?i)` + r.pattern)
		if pieces, ok := needs[r.name]; ok {
			r.needs = strings.Split(pieces, "|")
		}
		if r.before != "" {
			r.standardBefore = regexp.MustCompile(`(?i)` + r.before)
		}
		if r.after != "" {
			r.standardAfter = regexp.MustCompile(`(?i)` + r.after)
		}
	}
}

// checkWords applies the list to a paragraph.
func checkWords(name string, p paragraph) []finding {
	text, lineOf := p.joined()
	if p.kind == literal && !strings.Contains(text, " ") {
		return nil
	}
	hidden := masked(text)
	lower := strings.ToLower(hidden)
	var found []finding
	for _, r := range wordRules {
		if r.proseOnly && p.kind == code || !r.possible(lower) {
			continue
		}
		for _, at := range r.match.FindAllStringIndex(hidden, -1) {
			if r.standard(hidden, at[0], at[1]) {
				continue
			}
			found = append(found, finding{
				file:   name,
				line:   lineOf(at[0]),
				rule:   r.name,
				text:   around(text, at[0], at[1]),
				say:    r.say,
				advice: r.advice,
			})
		}
	}
	return found
}

func (r wordRule) possible(lower string) bool {
	return r.needs == nil ||
		slices.ContainsFunc(r.needs, func(piece string) bool { return strings.Contains(lower, piece) })
}

func (r wordRule) standard(text string, from, to int) bool {
	if r.name == "is no" && standardIsNo.MatchString(text[from:to]) {
		return true
	}
	return r.standardBefore != nil && r.standardBefore.MatchString(text[:from]) ||
		r.standardAfter != nil && r.standardAfter.MatchString(text[to:]) && to < len(text)
}

// around returns a match with the words next to it.
func around(text string, from, to int) string {
	start, end := max(0, from-30), min(len(text), to+30)
	if i := strings.IndexByte(text[start:from], ' '); start > 0 && i >= 0 {
		start += i + 1
	}
	if i := strings.LastIndexByte(text[to:end], ' '); end < len(text) && i >= 0 {
		end = to + i
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text[start:end], ""), "\x01", "…")
}
