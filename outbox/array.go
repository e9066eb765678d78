package outbox

import "strings"

// arrayLiteral builds the text form of a one-dimensional array (Postgres docs 8.15.2). Every element is quoted, so that
// no element is mistaken for NULL or for several elements.
type arrayLiteral struct {
	b strings.Builder
}

var quoteElement = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func (a *arrayLiteral) add(text *string) {
	if a.b.Len() == 0 {
		a.b.WriteByte('{')
	} else {
		a.b.WriteByte(',')
	}
	if text == nil {
		a.b.WriteString("NULL")
		return
	}
	a.b.WriteByte('"')
	_, _ = quoteElement.WriteString(&a.b, *text)
	a.b.WriteByte('"')
}

// String returns the literal. At least one element must have been added.
func (a *arrayLiteral) String() string { return a.b.String() + "}" }
