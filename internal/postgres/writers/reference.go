package writers

import "strings"

// reference is a pair of columns that name an aggregate together, such as messageable_type and messageable_id.
type reference struct{ kind, id string }

// aggregates are the words for what an event is about; true: an ORM stores a class's name beside its id. Words that end
// in "able" are Rails' and Laravel's.
var aggregates = map[string]bool{
	"aggregate": false, "aggregateroot": false, "entity": false, "stream": false, "object": true, "resource": true,
	"source": true, "subject": true, "record": true, "target": true, "model": true, "item": true, "parent": true,
	"related": true,
}

// refer completes aggregate type and id by a reference: the half that no name has given, or both.
func refer(columns []Column, found map[string]string, taken map[string]bool) {
	kind, id := found["aggregate_type"], found["aggregate_id"]
	var fit []reference
	for _, r := range references(columns) {
		if (r.kind == kind || kind == "" && !taken[r.kind]) && (r.id == id || id == "" && !taken[r.id] || isKey(id)) {
			fit = append(fit, r)
		}
	}
	if len(fit) != 1 {
		return
	}
	found["aggregate_type"], taken[fit[0].kind] = fit[0].kind, true
	if id == "" {
		found["aggregate_id"], taken[fit[0].id] = fit[0].id, true
	}
}

// isKey reports whether the column is the record's key by its name, whatever the aggregate is.
func isKey(name string) bool {
	switch folded(name) {
	case "partitionkey", "messagekey", "kafkakey", "recordkey", "eventkey", "key":
		return true
	}
	return false
}

func references(columns []Column) (all []reference) {
	for _, of := range columns {
		stem, ok := stemOf(of.Name, "type", "name", "kind", "class", "")
		if !ok || !names(of.Type) {
			continue
		}
		for _, to := range columns {
			other, ok := stemOf(to.Name, "id", "key", "uuid", "identifier")
			if ok && other == stem && identifies(to.Type) && to.Name != of.Name {
				all = append(all, reference{of.Name, to.Name})
			}
		}
	}
	return all
}

// stemOf takes off the first of the suffixes that the name has, where a word for an aggregate is left.
func stemOf(name string, suffixes ...string) (stem string, ok bool) {
	for _, s := range suffixes {
		stem, ok := strings.CutSuffix(folded(name), s)
		if _, known := aggregates[stem]; ok && (known || strings.HasSuffix(stem, "able")) {
			return stem, true
		}
	}
	return "", false
}

// Polymorphic reports whether the column holds names of classes, such as Billing::Invoice, by its name.
func Polymorphic(name string) bool {
	stem, ok := stemOf(name, "type")
	class, known := aggregates[stem]
	return ok && (class || !known)
}
