package fault

import "strings"

// Printable replaces control characters: names come from servers, and a terminal would obey them.
func Printable(s string) string {
	return strings.Map(printable, s)
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return '�'
	}
	return r
}

// PrintableLines is Printable for a text of several lines, which keeps their ends and tabs.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, s)
}
