package sink

// Promise is one property of a delivery, as a sentence for people.
type Promise struct {
	Of   string `json:"of"`
	Text string `json:"text"`
}

// The properties, in the order in which they are shown. Each broker has all of them.
const (
	PromiseBroker    = "broker"    // and delivery
	PromiseOrder     = "order"     // of the events of a key
	PromiseRepeats   = "repeats"   // of events
	PromiseInstances = "instances" // several of one relay, one of which may be frozen
	PromiseReading   = "reading"   // the published records, by commands
	PromiseSize      = "size"      // of a record
)

// Promises are an adapter's. Documentation and views print them, so that they agree.
type Promises []Promise

// Of returns the sentence about a property, empty if there is none.
func (p Promises) Of(of string) string {
	for _, one := range p {
		if one.Of == of {
			return one.Text
		}
	}
	return ""
}
