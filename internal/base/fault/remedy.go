package fault

import "strings"

// Remedy is the next step for a person. Everything that shows a remedy (errors, logs, check, status, the page,
// webhooks) shows the sentence first and then the commands.
type Remedy struct {
	Next     string   // one sentence, or a few
	Commands []string // to paste, in this order, each complete as it is; SQL ends with a semicolon
}

// IsZero reports whether there is nothing to do.
func (r Remedy) IsZero() bool { return r.Next == "" && len(r.Commands) == 0 }

// Lines returns the sentence and then the commands, line by line, without indentation.
func (r Remedy) Lines() []string {
	var lines []string
	for _, text := range append([]string{r.Next}, r.Commands...) {
		if text = strings.Trim(text, "\n"); text != "" {
			lines = append(lines, strings.Split(text, "\n")...)
		}
	}
	return lines
}

// Script returns the commands below each other, as they can be pasted at once.
func (r Remedy) Script() string { return strings.Join(Remedy{Commands: r.Commands}.Lines(), "\n") }

// String returns the sentence with the commands below it, indented.
func (r Remedy) String() string {
	text := r.Next
	for _, line := range (Remedy{Commands: r.Commands}).Lines() {
		text = strings.TrimRight(text, "\n") + "\n  " + line
	}
	return text
}

// Do returns a remedy of a sentence and commands.
func Do(next string, commands ...string) Remedy { return Remedy{Next: next, Commands: commands} }

// Then returns the remedy followed by another one.
func (r Remedy) Then(other Remedy) Remedy {
	return Remedy{
		Next:     strings.TrimSpace(r.Next + " " + other.Next),
		Commands: append(append([]string(nil), r.Commands...), other.Commands...),
	}
}
