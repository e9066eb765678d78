package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// refuseInvalid takes the values out of the configuration that its loader refuses, such as a slot's name that Postgres
// does not take, and leaves them to a person: a translation without open decisions loads.
func (m *migration) refuseInvalid(entries []Entry) []Entry {
	given := map[string]string{}
	for key, value := range m.out {
		switch v := value.(type) {
		case []string:
			given[key] = strings.Join(v, ",")
		case map[string]string:
			text, _ := json.Marshal(v) // a map of texts has no error
			given[key] = string(text)
		default:
			given[key] = fmt.Sprint(v)
		}
	}
	_, err := config.Load(config.Options{Settings: given})
	var problems config.Problems
	errors.As(err, &problems)
	for _, p := range problems {
		if _, ok := m.out[p.Key]; !ok {
			continue // what the file leaves out, such as a password, is its own matter
		}
		delete(m.out, p.Key)
		note := "The value " + p.What
		if p.Allowed != "" {
			note += "; allowed: " + p.Allowed
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key == p.Key })
		if i < 0 {
			i = len(entries)
			entries = append(entries, Entry{Option: p.Key, Key: p.Key})
		}
		entries[i].Verdict, entries[i].Note = Decide, note+"."
	}
	return entries
}
