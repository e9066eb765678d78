package outbox

import "strings"

// arrayLiteral builds the text form of a one-dimensional array (Postgres docs 8.15.2). Every element is quoted, so that
// none can be taken for NULL or for more than one.
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

// String returns the literal; at least one element was added.
func (a *arrayLiteral) String() string { return a.b.String() + "}" }
