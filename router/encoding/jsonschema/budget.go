package jsonschema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var errBudget = errors.New("$: the schema takes too many steps to judge it")

// budget bounds the steps of a validation. References in a schema can make it exponential in the depth of a document,
// and the library has no limit.
type budget struct{ left int }

// vocabulary has each schema within the schema count when it is applied, which is the only hook that the library has.
func (b *budget) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "https://cdc-outbox.invalid/steps",
		Compile: func(_ *jsonschema.CompilerContext, keywords map[string]any) (jsonschema.SchemaExt, error) {
			weight := 1
			for _, v := range keywords {
				switch v := v.(type) {
				case []any:
					weight += len(v)
				case map[string]any:
					weight += len(v)
				}
			}
			return &step{budget: b, weight: weight}, nil
		},
	}
}

// step is a schema within the schema.
type step struct {
	budget *budget
	weight int
}

// Validate implements jsonschema.SchemaExt. It ends the validation by a panic, for which Schema.validate waits.
func (s *step) Validate(*jsonschema.ValidatorContext, any) {
	if s.budget.left -= s.weight; s.budget.left < 0 {
		panic(errBudget)
	}
}
