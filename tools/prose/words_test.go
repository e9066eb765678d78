package main

import (
	"slices"
	"strings"
	"testing"
)

// Every rule has at least one sentence that it must find and, where a word has standard senses, sentences that it must
// let pass.
var sentences = []struct {
	rule      string
	bad, good []string
}{
	{
		"mend",
		[]string{"SQL that mends it", "Mend it.", "fails until it is mended"},
		[]string{"Amend the row.", "We recommend this.", "tremendous"},
	},
	{"anew", []string{"a slot that was made anew", "begins afresh"}, []string{"a new slot"}},
	{"told", []string{"the operator is told", "told by Kafka", "as told to"}, []string{"untold", "stolen"}},
	{"tells", []string{"tells whether it is open", "the page tells more"}, []string{"tell a row from a message"}},
	{
		"says whether",
		[]string{"Equal says whether there is no difference."},
		[]string{"Equal reports whether both are empty."},
	},
	{"whoever", []string{"whoever reads it", "Whoever has the slot"}, []string{"anyone who reads it", "however"}},
	{"whatever", []string{"whatever a row holds"}, []string{"any value that a row holds"}},
	{
		"nobody",
		[]string{"nobody reads the slot", "Somebody has changed it."},
		[]string{"the body of a request", "no process reads the slot"},
	},
	{
		"stands",
		[]string{
			"the slot stands still",
			"it stood there",
			"rows that stand in front",
			"can stand in a file",
			"stands in",
		},
		[]string{"LSN stands for log sequence number", "a standby", "standing replication", "a stand-in", "understand"},
	},
	{"lets go", []string{"it lets go of the slot", "letting go", "let it go"}, []string{"lets the goroutine end"}},
	{
		"the like",
		[]string{"heartbeats and the like", "or the like"},
		[]string{"It looks like a row.", "and like any other"},
	},
	{
		"made of",
		[]string{"the key is made of it", "made out of rows"},
		[]string{"makes use of", "a decision made often"},
	},
	{
		"is no",
		[]string{"it is no JSON object", "they are no events", "what is no insert"},
		[]string{
			"there is no slot",
			"There are no rows.",
			"it is no longer there",
			"is no more than a name",
			"is no different",
			"is not a slot",
		},
	},
	{
		"passes for",
		[]string{"passed for success", "would pass for a duplicate"},
		[]string{"the first pass over the table", "passes forty"},
	},
	{"do without", []string{"the table is done without", "can do without it"}, []string{"works without a table"}},
	{
		"else",
		[]string{"within the limit; else 503", "Else the row is read.", "the first, or else the next"},
		[]string{"nothing else", "anything else.", "elsewhere"},
	},
	{
		"look",
		[]string{"a look that failed", "six looks in a row", "the look must be cheap"},
		[]string{"It looks at the slot.", "looks like a row"},
	},
	{"looked at", []string{"the slot is looked at"}, []string{"look for it"}},
	{"gets on", []string{"does not get on", "it gets on"}, []string{"get one row", "budgets only"}},
	{
		"behind",
		[]string{"the rows behind it", "what lies behind", "waits behind the reader"},
		[]string{
			"falls behind",
			"lags behind",
			"40 bytes behind",
			"behind a proxy",
			"behind a transaction pooler",
			"behind the load balancer",
			"left behind",
			"How far behind",
		},
	},
	{
		"way",
		[]string{"on its way to Kafka", "out of the way", "half-way", "The way back", "a way to the broker"},
		[]string{"the same way", "a better way", "ways of writing", "under way"},
	},
	{
		"own accord",
		[]string{"of its own accord", "it ends by itself"},
		[]string{"a table of its own", "the table itself"},
	},
	{"comes again", []string{"every event comes again", "came once more"}, []string{"becomes against"}},
	{"held up", []string{"it holds everything up", "held up by one row"}, []string{"set up", "hold the upper end"}},
	{"gone", []string{"the slot is gone"}, []string{"has ended"}},
	{"aside", []string{"puts rows aside"}, []string{"beside the row"}},
	{"no matter", []string{"no matter which"}, []string{"regardless of which"}},
	{"in vain", []string{"waits in vain", "says it aloud"}, []string{"allowed", "in various ways"}},
	{
		"that one",
		[]string{"waits until that one ends.", "that one's position", "and that one, too"},
		[]string{"so that one slow commit does not matter", "a topic that one side lacks"},
	},
	{
		"those of",
		[]string{"the types are those of the table", "those that wait"},
		[]string{"those rows", "those types"},
	},
	{
		"the one",
		[]string{"the one before it", "the ones that wait", "the one with a pooler"},
		[]string{"the one row", "the one and only"},
	},
	{
		"who as subject",
		[]string{"Who runs one relay has no Prometheus."},
		[]string{"Who reads the slot?", "The process that reads it runs."},
	},
	{"goes on", []string{"the stream goes on"}, []string{"the stream continues", "a logo on"}},
	{"once more", []string{"published once more"}, []string{"more than once"}},
	{
		"contraction",
		[]string{"it doesn't", "it's here", "they're sent", "what's left"},
		[]string{"the row's key", "its key", "Postgres's own"},
	},
}

func rulesOf(found []finding) []string {
	rules := make([]string, 0, len(found))
	for _, f := range found {
		rules = append(rules, f.rule)
	}
	return rules
}

func text(kind kind, lines ...string) paragraph {
	p := paragraph{kind: kind}
	for i, l := range lines {
		p.lines = append(p.lines, line{i + 1, l})
	}
	return p
}

func TestWords(t *testing.T) {
	covered := map[string]bool{}
	for _, s := range sentences {
		covered[s.rule] = true
		t.Run(s.rule, func(t *testing.T) {
			for _, bad := range s.bad {
				if found := checkWords("f", text(markdown, bad)); !slices.Contains(rulesOf(found), s.rule) {
					t.Errorf("%q passes", bad)
				}
			}
			for _, good := range s.good {
				if found := checkWords("f", text(markdown, good)); slices.Contains(rulesOf(found), s.rule) {
					t.Errorf("%q is reported: %v", good, found)
				}
			}
		})
	}
	for _, r := range wordRules {
		if !covered[r.name] {
			t.Errorf("rule %q has no sentences", r.name)
		}
		if _, ok := needs[r.name]; !ok && r.name != "in vain" {
			t.Errorf("rule %q is missing in needs", r.name)
		}
	}
}

func TestWordsAcrossLines(t *testing.T) {
	found := checkWords("f", text(comment, "the slot is read by", "nobody, and the operator is", "told"))
	if len(found) != 2 || found[0].line != 3 && found[1].line != 3 || found[0].line != 2 && found[1].line != 2 {
		t.Errorf("found %v, want nobody in line 2 and told in line 3", found)
	}
}

func TestWordsQuoted(t *testing.T) {
	for _, quoted := range []string{
		"`nobody` is a role", "see [the page](nobody.md#anew)", "https://example.com/nobody", "``a `nobody` b``",
	} {
		if found := checkWords("f", text(markdown, quoted)); len(found) > 0 {
			t.Errorf("%q: %v", quoted, found)
		}
	}
}

func TestWordsOfProgramText(t *testing.T) {
	if found := checkWords("f", text(code, "fi; else # x don't")); len(found) > 0 {
		t.Errorf("%v", found)
	}
	if found := checkWords("f", text(literal, "anew")); len(found) > 0 {
		t.Errorf("a single word is not a sentence: %v", found)
	}
}

func TestAround(t *testing.T) {
	long := strings.Repeat("word ", 30) + "anew" + strings.Repeat(" word", 30)
	if got := around(long, 150, 154); got != "word word word word word anew word word word word word" {
		t.Errorf("%q", got)
	}
}
